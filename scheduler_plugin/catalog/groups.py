"""Reads `groups:`, which divides the slots: a group's objects have the first right to its slots; idle ones are lent."""

from collections.abc import Collection, Sequence

from scheduler_plugin.catalog import values
from scheduler_plugin.catalog.model import Group
from scheduler_plugin.catalog.problems import Fields, Problems


def read_groups(
    here: str, entries: Sequence[tuple[str, Fields]], slots: int | None, objects: Collection[str], problems: Problems
) -> dict[str, Group]:
    """The groups; `slots` is None when the total itself had a problem."""
    groups: dict[str, Group] = {}
    member_of: dict[str, str] = {}
    for name, fields in entries:
        groups[name] = group = _group(name, fields, slots)
        for member in group.objects:
            if member not in objects:
                hint = problems.hint(member, objects)
                problems.add(fields.where, f", `objects`: no feed or view provides `{member}`.{hint}")
            elif member in member_of:
                problems.add(fields.where, f" and group {member_of[member]} both hold `{member}`. Keep it in one.")
            member_of[member] = name
    taken = sum(group.slots for group in groups.values())
    sizes = " + ".join(f"{group.name} {group.slots}" for group in groups.values())
    left = sorted(set(objects) - set(member_of))
    if slots is not None and taken > slots:
        problems.add(here, f": groups take {taken} slots ({sizes}) of {slots}. Raise `slots` or shrink a group.")
    elif slots is not None and taken == slots and left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        problems.add(
            here,
            f": groups take all {slots} slots ({sizes}) and leave none for `{left[0]}`{more}. "
            "Raise `slots`, or put every object in a group.",
        )
    return groups


def _group(name: str, fields: Fields, slots: int | None) -> Group:
    if ("slots" in fields.values) == ("share" in fields.values):
        fields.problems.add(fields.where, " needs either `slots` (a number) or `share` (of all slots). Write one.")
    size = fields.take("slots", values.whole, None)
    share = fields.take("share", values.share, None)
    if share is not None and slots is not None:
        # A share is rounded down to whole slots; the term keeps 0.29 * 100 from falling just short of 29.
        size = int(share * slots + 1e-9)
        if size == 0:
            fields.problems.add(fields.where, f", `share`: {share:g} of {slots} slots is less than one. Raise it.")
    members = fields.take("objects", values.names) or ()
    fields.done()
    return Group(name=name, slots=size or 0, objects=members)

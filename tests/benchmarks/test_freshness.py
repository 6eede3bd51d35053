"""What the freshness bench makes of what it has recorded."""

from scheduler_plugin.benchmarks.freshness import Load, recovery


def test_a_load_names_its_share_and_how_many_files_come_together() -> None:
    assert Load.parse("0.5") == Load(told="0.5", share=0.5)
    assert Load.parse("2x12") == Load(told="2x12", share=2.0, together=12)
    assert Load.parse("surge") == Load(told="surge", share=0.5, surge=True)


def test_recovered_is_what_is_as_fresh_as_before_over_a_whole_period() -> None:
    """Fresh three quarters of each period of 20 s; a surge from 60 to 80, and a backlog until 110."""
    shares = [0.0 if 60 <= at < 110 or at % 20 < 5 else 1.0 for at in range(200)]
    curve = [(float(at), share, 0.0) for at, share in enumerate(shares)]
    found = recovery(curve, (60.0, 80.0), 20.0)
    assert found is not None
    assert 20 <= found <= 30
    assert recovery(curve[:100], (60.0, 80.0), 20.0) is None

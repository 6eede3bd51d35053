-- Planes with what the register spells in several ways brought together.
SELECT
  tailnum,
  CASE
    WHEN manufacturer LIKE 'AIRBUS%' THEN 'AIRBUS'
    WHEN manufacturer LIKE 'MCDONNELL DOUGLAS%' THEN 'MCDONNELL DOUGLAS'
    ELSE manufacturer
  END AS manufacturer,
  model,
  engines,
  seats,
  -- The register stops in 2013; 70 planes have no year.
  2013 - year AS age_years
FROM planes

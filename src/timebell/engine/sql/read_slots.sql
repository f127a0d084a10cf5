-- Who owns which slot; an owner that no longer lives counts as none.
SELECT s.slot, CASE WHEN n.incarnation IS NOT NULL THEN s.owner END AS owner, s.epoch
FROM timebell.slots s LEFT JOIN timebell.nodes n ON n.incarnation = s.owner
ORDER BY s.slot

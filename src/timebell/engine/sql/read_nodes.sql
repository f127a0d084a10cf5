-- Who lives. A life whose lease has run out counts until somebody buries it, so that all nodes see one truth.
SELECT incarnation FROM timebell.nodes ORDER BY incarnation

SELECT policy::text AS policy, revision FROM timebell_notify.policies WHERE tenant = :tenant::text

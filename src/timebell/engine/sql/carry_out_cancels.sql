-- See the function: cancels that were asked for while another transaction held the job.
SELECT job_id, tenant, queue FROM timebell.carry_out_cancels(:limit::integer, :now::timestamptz)

"""Reports of the simulator, which come through the same door as those of any payment provider."""

from __future__ import annotations

from timebell.apps.marketplace.payments.provider import ChargeState
from timebell.apps.marketplace.payments.reports import Reports
from timebell.apps.marketplace.payments.simulator import Simulator
from timebell.apps.marketplace.payments.simulator_store import SimulatorStore
from timebell.kernel import Done, Job, Outcome


async def simulate_report(job: Job) -> Outcome:
    """`marketplace.simulate_report`: what was processing until now succeeds; what was cancelled is not told of."""
    store, simulator = SimulatorStore(job.bell.clock), Simulator(job.bell)
    charge = await store.lock_charge(job.tx, ref=job.payload["ref"])
    if charge is None or charge.state == "cancelled":
        return Done()
    state: ChargeState = charge.state
    if state == "processing":
        state = "succeeded"
        await store.move_charge(job.tx, ref=charge.ref, state=state)
    orders = await store.read_simulator(job.tx)
    fault = orders.fault_of("report")
    if fault is not None:
        orders = await store.lock_simulator(job.tx)
        fault = orders.fault_of("report")
        await store.write_simulator(job.tx, orders.used("report"))
    told: list[ChargeState] = [state]
    if fault == "lose":
        told = []
    elif fault == "repeat":
        told = [state, state]
    elif fault == "reorder":
        told = [state, "processing"]
    reports = Reports(job.bell)
    for each in told:
        raw, headers = simulator.write_report(job.tenant, charge, each)
        report = simulator.read_report(raw, headers)
        assert report is not None, "the simulator tells of charges alone"
        await reports.take(job.tx, simulator.name, report)
    return Done()

import time, asyncio, functools
from hypothesis import settings, HealthCheck, Phase
import tests.engine.test_agenda_property as t
import tests.engine.agenda_world as w
from tests.engine.agenda_world import *
def timed(name):
    f=getattr(w.World,name)
    @functools.wraps(f)
    async def g(self,*a,**k):
        b=time.time()
        try: return await asyncio.wait_for(f(self,*a,**k), 20)
        finally: print(f"{name} {a if name!='_set' else ''} {time.time()-b:.3f}", flush=True)
    setattr(w.World,name,g)
for n in ["come_to_rest","set_agenda","crash","start_node","advance","check","cancel","release","enqueue","set_two_agendas_at_once"]: timed(n)
def test_x(database_url):
    import os
    with asyncio.Runner() as runner:
        ground = runner.run(Ground.open(database_url))
        t.run_state_machine_as_test(lambda: t.AgendaMachine(runner, ground), settings=settings(max_examples=int(os.environ.get("EX","3")), stateful_step_count=20, deadline=None, database=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)))
        runner.run(ground.close())
from collections import Counter
C=Counter()
import tests.engine.agenda_model as m
_of=m.Answer.of.__func__
def of(cls,diff):
    for n in cls.__dataclass_fields__: C[n]+=len(getattr(diff,n))
    C['sets']+=1
    return _of(cls,diff)
m.Answer.of=classmethod(of)
_b=m.SubjectModel.begin
def begin(self,job,now): C['begin '+job.kind]+=1; C[f"attempt{job.attempt}"]+=1; return _b(self,job,now)
m.SubjectModel.begin=begin
_e=m.SubjectModel._end
def _end(self,job,state): C['end '+state]+=1; return _e(self,job,state)
m.SubjectModel._end=_end
_r=m.SubjectModel.recover
def rec(self): C['recovered']+=sum(j.is_running for j in self.jobs.values()); return _r(self)
m.SubjectModel.recover=rec
import atexit; atexit.register(lambda: print(sorted(C.items())))

from tests.engine.conftest import *
from tests.engine.test_limits import *
async def test_dbg(cluster):
    starts = Starts(cluster.clock)
    nodes = []
    log=[]
    orig = starts.run
    async def run(job):
        st=[(n.engine.worker._limits._queues["q"].in_use, n.engine.worker._limits._queues["q"].held) for n in nodes]
        log.append((cluster.clock.now.microsecond, starts.running, st))
        await orig(job)
    starts.run = run
    import timebell.engine.limits as L
    o=L.Limits._share_permits
    async def sp(self,name,limit,waiting):
        b=(limit.in_use,limit.held)
        await o(self,name,limit,waiting)
        log.append(("share",self._node.incarnation,cluster.clock.now.microsecond,"before",b,"after",(limit.in_use,limit.held)))
    L.Limits._share_permits=sp
    nodes += await three_nodes(cluster, starts.app(Queue(name="q", concurrency=5), "transactional"))
    await enqueue(nodes[0], 200)
    await pass_time(cluster, nodes, 3 * SECOND, timedelta(milliseconds=60))
    for i,l in enumerate(log):
        if l[0]!="share" and l[1]>=5:
            print(*log[max(0,i-25):i+3],sep="\n"); break
    assert 0

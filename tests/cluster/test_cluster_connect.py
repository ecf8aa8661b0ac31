"""Which workers a client's scheduler knows."""

import pytest

distributed = pytest.importorskip("distributed", reason="runs a cluster of Dask")

from isochrony.cluster.connect import result_within, workers_of  # noqa: E402


def test_workers_are_known_while_the_client_refreshes_what_it_knows() -> None:
    import dask

    # The client's own view has no workers after each refresh, here every millisecond.
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert {len(workers_of(client)) for _ in range(300)} == {2}
        assert {worker["nthreads"] for worker in workers_of(client).values()} == {1}


def test_a_result_is_waited_for_in_spite_of_what_dask_raises_when_it_is_late() -> None:
    class Answer:
        turns = 0

        def done(self) -> bool:
            return False

        def result(self, timeout: float) -> str:
            self.turns += 1
            if self.turns < 4:
                raise (TimeoutError if self.turns % 2 else UnboundLocalError)("result")
            return "here"

    def check() -> None:
        looks.append(True)

    looks: list[bool] = []
    assert result_within(Answer(), 60, check) == "here" and len(looks) == 3
    with pytest.raises(TimeoutError, match="no answer within 0 s"):
        result_within(Answer(), 0, check)


def test_nothing_is_waited_for_in_vain() -> None:
    class Answer:
        def __init__(self, error: Exception, done: bool) -> None:
            self.error, self.is_done = error, done

        def done(self) -> bool:
            return self.is_done

        def result(self, timeout: float | None = None) -> str:
            raise self.error

    def gone() -> None:
        raise OSError("the worker is gone")

    with pytest.raises(OSError, match="gone"):
        result_within(Answer(TimeoutError(), False), 60, gone)
    with pytest.raises(OSError, match="was lost"):
        result_within(Answer(RuntimeError("Worker holding Actor was lost"), True), 60, gone)
    with pytest.raises(TimeoutError, match="its own"):
        result_within(Answer(TimeoutError("its own"), True), 60, gone)
    with pytest.raises(RuntimeError, match="something else"):
        result_within(Answer(RuntimeError("something else"), True), 60, gone)


def test_a_closed_client_has_no_scheduler() -> None:
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        client = distributed.Client(cluster)
        client.close()
        with pytest.raises(OSError, match="no scheduler"):
            workers_of(client)

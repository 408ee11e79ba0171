"""torch.futures: values that other threads bring, callbacks, and what becomes of their errors."""

import pickle
import threading

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.futures import Future, collect_all, wait_all


def completed(value: object) -> Future:
    future: Future = Future()
    future.set_result(value)
    return future


def test_a_value_comes_from_another_thread() -> None:
    future: Future = Future()
    threading.Timer(0.01, future.set_result, ("late",)).start()
    assert future.wait() == "late" and future.done() and future.value() == "late"


def test_a_future_is_completed_once() -> None:
    future = completed(1)
    for again in (lambda: future.set_result(2), lambda: future.set_exception(ValueError())):
        with pytest.raises(RuntimeError, match="can only be marked completed once"):
            again()
    assert future.value() == 1


def test_its_error_is_raised_to_those_who_wait() -> None:
    future: Future = Future()
    future.set_exception(ValueError("lost"))
    for read in (future.wait, future.value):
        with pytest.raises(ValueError, match="lost"):
            read()
    with pytest.raises(AssertionError, match="not an Exception"):
        Future().set_exception("text")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="not completed"):
        Future().value()


def test_callbacks_run_in_their_order() -> None:
    future: Future = Future()
    seen: list[int] = []
    future.add_done_callback(lambda done: seen.append(done.value()))
    following = future.then(lambda done: seen.append(10 * done.value()) or sum(seen))
    future.add_done_callback(lambda _: seen.append(100))
    assert not following.done()
    future.set_result(1)
    assert seen == [1, 10, 100] and following.wait() == 11
    future.add_done_callback(lambda _: seen.append(1000))  # at once
    assert seen[-1] == 1000


def test_errors_of_callbacks(capsys: pytest.CaptureFixture[str]) -> None:
    future: Future = Future()
    future.add_done_callback(lambda _: 1 // 0)
    following = future.then(lambda _: 1 // 0)
    wrong = future.then(lambda: 0)  # type: ignore[arg-type,misc]
    future.set_result(1)
    assert "ZeroDivisionError" in capsys.readouterr().err
    for failed, text in ((following, "ZeroDivisionError"), (wrong, "TypeError")):
        with pytest.raises(RuntimeError, match=f"error when running the callback: {text}"):
            failed.wait()
    with pytest.raises(TypeError, match="callable"):
        future.then(3)  # type: ignore[arg-type]


def test_collecting_does_not_wait() -> None:
    first, second = Future(), Future()
    both = collect_all([first, second])
    first.set_exception(ValueError("first"))
    assert not both.done()
    second.set_result(2)
    with pytest.raises(ValueError, match="first"):
        both.wait()
    assert wait_all([completed(1), completed(2)]) == [1, 2] and wait_all([]) == []
    for gather in (collect_all, wait_all):
        with pytest.raises(RuntimeError, match="can't be None"):
            gather([None])


def test_a_future_cannot_be_pickled() -> None:
    with pytest.raises(RuntimeError, match="Can not pickle"):
        pickle.dumps(Future())
    assert torch.jit.wait(torch.jit.fork(lambda x: x + 1, 2)) == 3

"""The aggregator's rule: the same verdict in whatever order, however often and across whatever restarts its events come."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.validation.model import Check, State
from moldau.pipelines.validation.verdict import JUDGED, VOID, Answer, Created, Open, Verdict, expire, pack, step, unpack

CREATED = Created('{"order_id":"7"}', 1)
FAULTS = st.none() | st.sampled_from(["SPENT_LIMIT", "QUANTITY"])
ANSWERS = st.tuples(FAULTS, FAULTS, FAULTS).map(lambda faults: [Answer(check, fault) for check, fault in zip(Check, faults, strict=True)])


def run(events: list[Created | Answer]) -> tuple[Open, list[Verdict]]:
    order = Open()
    verdicts = []
    for event in events:
        order, verdict = step(unpack(pack(order)), event)
        verdicts += [verdict] if verdict else []
    return order, verdicts


@given(ANSWERS, st.data())
def test_one_verdict_in_any_order_with_repeats(answers: list[Answer], data: st.DataObject) -> None:
    events = data.draw(st.permutations([CREATED, *answers]))
    repeats = data.draw(st.lists(st.sampled_from(answers), max_size=4))
    faults = list(dict.fromkeys(answer.fault for answer in answers if answer.fault))
    order, verdicts = run([*events[:-1], *[event for event in repeats if event != events[-1]], events[-1]])
    assert order == (VOID if faults else JUDGED)
    assert verdicts == [Verdict(CREATED, State.FAILED if faults else State.VALIDATED, faults)]


@given(ANSWERS)
def test_repeats_after_the_verdict_never_make_another(answers: list[Answer]) -> None:
    order, verdicts = run(answers)
    assert verdicts == []
    assert expire(order) is None


@given(ANSWERS, st.integers(0, 2))
def test_at_the_deadline_a_known_fault_decides(answers: list[Answer], heard: int) -> None:
    order, verdicts = run([CREATED, *answers[:heard]])
    assert not verdicts
    faults = list(dict.fromkeys(answer.fault for answer in answers[:heard] if answer.fault))
    assert expire(order) == Verdict(CREATED, State.FAILED if faults else State.TIMED_OUT, faults)


def test_the_first_version_of_state_is_read() -> None:
    assert unpack('[["{}",1],{"fraud":null},false]') == Open(Created("{}", 1), {"fraud": None})
    assert unpack("[null,{},true]") == JUDGED

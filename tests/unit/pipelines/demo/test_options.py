"""The split of a run's orders, and the options that can be asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipelines.demo.options import ALL_ORDERS, Phase, parse, phases


@given(st.integers(1, ALL_ORDERS), st.sampled_from([0, 50]))
def test_the_phases_hold_every_order_once(orders: int, rate: float) -> None:
    planned = phases(parse(["--orders", str(orders), "--rate", str(rate)]))
    assert sum(phase.orders for phase in planned) == orders
    assert all(phase.orders > 0 for phase in planned)


def test_a_rate_leaves_no_flood() -> None:
    assert phases(parse(["--orders", "4000", "--rate", "50"])) == [Phase("warm-up", 500, 0), Phase("steady", 3_500, 50)]


def test_all_is_the_whole_year_and_no_more_is_to_be_had() -> None:
    assert parse(["--all"]).orders == parse(["--orders", "999999"]).orders == ALL_ORDERS


@pytest.mark.parametrize("arguments", [["--orders", "0"], ["--rate", "-1"], ["--rate", "nan"], ["--all", "--orders", "5"]])
def test_what_makes_no_sense_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)


@pytest.mark.parametrize(("arguments", "said"), [(["--orders", "x"], "not 'x'"), (["--rate", "fast"], "not 'fast'")])
def test_a_mistake_is_told_in_words(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    told = capsys.readouterr().err
    assert f"argument {arguments[0]}: " in told
    assert said in told
    assert "_at_least_one" not in told

"""The performance tools count and print figures, and their command line is comfortable."""

from datetime import datetime
from pathlib import Path

import pytest

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.main import ALL, main
from moldau.tools.cli.parser import Parser, add_bootstrap
from moldau.tools.cli.perf.figures import ReceiveFigures, SendFigures, percentiles, plot, shown_date
from moldau.tools.cli.shell.completion import completed
from moldau.tools.cli.shell.profiles import PROFILE_VARIABLE, VARIABLE, current_profile


def test_send_figures_are_printed_as_kafka_prints_them() -> None:
    figures = SendFigures(4, 1000.0)
    for latency_ms in (1, 2, 3, 40):
        figures.acknowledged(1, 1024 * 1024, latency_ms)
    assert figures.window(2000.0) == "4 records sent, 4.0 records/sec (4.00 MB/sec), 11.5 ms avg latency, 40.0 ms max latency."
    assert figures.window(3000.0) == "0 records sent, 0.0 records/sec (0.00 MB/sec), 0.0 ms avg latency, 0.0 ms max latency."
    assert figures.total(3000.0) == (
        "4 records sent, 2.000000 records/sec (2.00 MB/sec), 11.50 ms avg latency, 40.00 ms max latency, "
        "3 ms 50th, 40 ms 95th, 40 ms 99th, 40 ms 99.9th."
    )


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_of_many_records_every_so_manieth_is_a_sample(size: int) -> None:
    figures = SendFigures(2_000_000, 0.0)
    for start in range(0, 20_000, size):
        figures.acknowledged(min(size, 20_000 - start), 0, start)
    assert len(figures.samples) == 5_000


def test_percentiles_are_samples() -> None:
    assert percentiles(range(1000)) == [500, 950, 990, 999]
    assert percentiles([]) == [0, 0, 0, 0]


def test_receive_figures_leave_the_rebalance_out_of_fetching() -> None:
    figures = ReceiveFigures(0.0)
    figures.count, figures.bytes, figures.rebalance_ms = 1000, 2 * 1024 * 1024, 1000.0
    assert figures.total(2000.0, "a", "b") == "a, b, 2.0000, 1.0000, 1000, 500.0000, 1000, 1000, 2.0000, 1000.0000"
    assert figures.details(2000.0, "t") == "t, 0, 2.0000, 1.0000, 1000, 500.0000, 1000, 1000, 2.0000, 1000.0000"
    assert figures.details(3000.0, "t") == "t, 0, 2.0000, 0.0000, 1000, 0.0000, 0, 1000, 0.0000, 0.0000"


def test_dates_by_javas_patterns() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 67_000)
    assert shown_date(moment, "yyyy-MM-dd HH:mm:ss:SSS") == "2026-01-02 03:04:05:067"
    with pytest.raises(ValueError, match="'EEE'"):
        shown_date(moment, "EEE")


def test_a_plot_shows_both_ends() -> None:
    assert plot([1.0, 1.0, 9.0], width=4) == "1 ms █  ▆ 9 ms"
    assert plot([]) == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pro"], ["produce", "profile"]),
        (["topics", "de"], ["describe", "delete"]),
        (["groups", "lag", "billing", "--wa"], ["--watch"]),
        (["produce", "t", "--compression", "z"], ["zstd"]),
        (["kafka-topics", "--rep"], ["--replication-factor", "--replica-assignment"]),
        (["nosuch", ""], []),
    ],
)
def test_completion(words: list[str], expected: list[str]) -> None:
    assert completed(words) == expected


@pytest.mark.parametrize("name", list(ALL))
def test_completion_looks_at_every_command_without_running_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = completed([name, "--"])
    assert "--help" in found or completed([name, ""])
    assert capsys.readouterr().out == ""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "config.toml"))
    monkeypatch.delenv(PROFILE_VARIABLE, raising=False)
    return tmp_path / "config.toml"


def given(*words: str) -> tuple[str, str | None]:
    parser = Parser("p")
    add_bootstrap(parser)
    options = parser.parse_args(list(words))
    return options.bootstrap_server, options.command_config


def test_a_profile_is_what_commands_speak_to(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given() == ("localhost:9092", None)
    assert main(["profile", "set", "staging", "s:9093", "--command-config", "/s.properties"]) == 0
    assert main(["profile", "set", 'od"d', "o:1"]) == 0
    assert given() == ("localhost:9092", None)
    main(["profile", "use", "staging"])
    assert given() == ("s:9093", "/s.properties")
    assert given("-b", "other:1") == ("other:1", None)
    assert given("--command-config", "x", "-b", "other:1") == ("other:1", "x")
    monkeypatch.setenv(PROFILE_VARIABLE, 'od"d')
    assert given() == ("o:1", None)
    monkeypatch.delenv(PROFILE_VARIABLE)
    main(["profile", "delete", "staging"])
    assert current_profile() is None


def test_an_unknown_profile_names_those_there_are(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["profile", "set", "staging", "s:9093"])
    assert main(["profile", "use", "stagin"]) == 1
    assert "Known: staging" in capsys.readouterr().err
    config.write_text("profile = 1 =")
    with pytest.raises(Failure, match=r"config\.toml"):
        current_profile()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("consume t --max-messages 3", "what Kafka's tools call --max-messages is --max here"),
        ("perf produce --num-records 3", "what Kafka's tools call --num-records is --records here"),
        ("topics create t --replication-factor 3", "what Kafka's tools call --replication-factor is --replicas here"),
        ("topics describe x --topic t", "the topic is a word of its own here, without --topic"),
        ("kafka-console-consumer --mx-messages 3", "did you mean --max-messages?"),
        (
            "kafka-producer-perf-test --topic t --num-records 3 --throughput 1 --record-size 3 --warm-records 1",
            "did you mean --warmup-records?",
        ),
    ],
)
def test_options_that_are_nearly_kafkas_are_named(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 1
    assert said in capsys.readouterr().err

"""Settings of a pipeline: every mistake is named by its field, all at once."""

import pytest

from moldau.pipelines.running.known import PIPELINES
from moldau.pipelines.running.settings import SettingsError, example, read

ORDERS = PIPELINES["order-validation"].fields
LEAST = 'bootstrap_servers = "h:1"\ncheckpoint = "/data"\n'


def mistakes(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(text, ORDERS)
    return caught.value.mistakes


def test_defaults_stand_where_nothing_is_said() -> None:
    values = read(LEAST, ORDERS)
    assert values["bootstrap_servers"] == "h:1"
    assert (values["rules.deadline_s"], values["partitions"], values["kafka"], values["spark"]) == (600, 3, {}, {})


def test_all_mistakes_are_named_by_their_fields() -> None:
    found = mistakes('checkpoint = ""\nmetrics_port = 70000\nrules.deadline_s = "soon"\nrules.strangler_s = 1\nspark = 3')
    assert [line.partition(":")[0] for line in found] == [
        "bootstrap_servers",
        "checkpoint",
        "metrics_port",
        "rules.deadline_s",
        "rules.strangler_s",
        "spark",
    ]
    assert "at most 65535" in found[2]
    assert "a whole number of at least 1 is expected, not 'soon'" in found[3]
    assert found[4].endswith("did you mean rules.straggler_s?")


def test_true_is_no_number() -> None:
    assert mistakes(LEAST + "partitions = true") == ["partitions: a whole number of at least 0 is expected, not True"]


def test_what_is_no_toml_says_where() -> None:
    assert "line 1" in mistakes("bootstrap_servers h:1")[0]


def test_options_of_kafka_are_looked_at_before_anything_starts() -> None:
    assert mistakes(LEAST + '[kafka]\n"securty.protocol" = "SSL"') == [
        "kafka.securty.protocol: it is not known: did you mean kafka.security.protocol?"
    ]
    assert mistakes(LEAST + '[kafka]\n"security.protocol" = "TLS"')[0].startswith("kafka.security.protocol: plaintext or ssl")


def test_keys_with_dots_are_the_same_quoted_or_not() -> None:
    quoted, dotted = LEAST + '[spark]\n"spark.a.b" = 4\n[kafka]', LEAST + "spark.spark.a.b = 4\n"
    assert read(quoted, ORDERS)["spark"] == read(dotted, ORDERS)["spark"] == {"spark.a.b": "4"}
    assert read(LEAST + '[kafka]\nsecurity.protocol = "SSL"', ORDERS)["kafka"] == {"security.protocol": "SSL"}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=list(PIPELINES))
def test_the_example_is_a_file_that_only_lacks_what_is_needed(pipeline: object) -> None:
    fields = pipeline.fields  # type: ignore[attr-defined]
    text = example("about", fields)
    with pytest.raises(SettingsError) as caught:
        read(text, fields)
    assert [line.partition(":")[0] for line in caught.value.mistakes] == ["bootstrap_servers", "checkpoint"]
    uncommented = "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    read(uncommented.replace('= ""', '= "x"', 2), fields)

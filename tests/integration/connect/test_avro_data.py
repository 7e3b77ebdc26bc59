"""Random schemas and values: our Avro converter and AvroData, the class behind Confluent's converter, make and read the same."""

import pytest

from proof.connect.avro_data import run
from proof.metadata.oracle import javac

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.skipif(javac() is None, reason="there is no javac to compile the starter of AvroData with"),
]


def test_schemas_bytes_and_values_are_those_of_avro_data() -> None:
    assert run(cases=150, seed=1) == 0

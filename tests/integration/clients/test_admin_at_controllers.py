"""Admin at the controllers themselves (KIP-919): what it may ask there, and what it does when the active one dies."""

import asyncio
from collections.abc import Iterator

import pytest

from moldau.clients.admin import Admin, ConfigChange, NewTopic, ResourceType
from moldau.errors import ErrorCode, KafkaError
from moldau.sync import Admin as BlockingAdmin
from moldau.testing.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

DEFAULT_BROKER = (ResourceType.BROKER, "")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, controllers=3) as started:
        yield started


def addresses(cluster: Cluster) -> list[str]:
    return [f"127.0.0.1:{node.controller_port}" for node in cluster.nodes.values() if node.is_controller]


def test_what_controllers_answer_themselves(cluster: Cluster) -> None:
    async def work() -> None:
        for address in addresses(cluster):  # one of them is active, the others name it
            async with Admin(bootstrap_controllers=address) as admin:
                told = await admin.describe_cluster()
                assert sorted(one.broker_id for one in told.brokers) == [101, 102, 103]
                assert (await admin.quorum.describe()).state.leader_id == told.controller_id
                assert "metadata.version" in (await admin.features.describe()).finalized
                changes = {DEFAULT_BROKER: [ConfigChange("message.max.bytes", "2000000")]}
                assert await admin.configs.alter(changes) == {DEFAULT_BROKER: None}
                assert await admin.partitions.list_reassignments(None) == {}
                with pytest.raises(KafkaError) as raised:
                    await admin.topics.create([NewTopic("t", 1)])
                assert raised.value.code is ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    asyncio.run(asyncio.wait_for(work(), 60))


def test_brokers_are_no_controllers(cluster: Cluster) -> None:
    with BlockingAdmin(bootstrap_controllers=cluster.bootstrap) as admin, pytest.raises(KafkaError) as raised:
        admin.quorum.describe()
    assert raised.value.code is ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_a_change_goes_on_at_the_next_active_controller(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(options={"bootstrap.controllers": ",".join(addresses(cluster))}) as admin:
            active = (await admin.quorum.describe()).state.leader_id
            cluster.nodes[active].kill()
            answer = await changed(admin)
            assert answer == {DEFAULT_BROKER: None}
            assert (await admin.quorum.describe()).state.leader_id != active

    async def changed(admin: Admin) -> object:
        while True:
            try:
                return await admin.configs.alter({DEFAULT_BROKER: [ConfigChange("message.max.bytes", "3000000")]})
            except OSError:  # the connection broke: whether the change was made is not known
                await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(work(), 60))

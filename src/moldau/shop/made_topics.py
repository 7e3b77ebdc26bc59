"""● The shop's topics, made where they are missing."""

from moldau import Admin, NewTopic
from moldau.errors import ErrorCode, KafkaError
from moldau.shop.settings import Settings
from moldau.shop.topics import all_configs


async def make_topics(settings: Settings) -> None:
    """A topic that exists already stays as it is.  Errors: KafkaError, ClientError."""
    async with Admin(settings.servers, {**settings.security}) as admin:
        there = {one.name for one in await admin.topics.list()}
        wanted = {name: configs for name, configs in all_configs(settings.orders, settings.topics).items() if name not in there}
        if not wanted:
            return
        made = await admin.topics.create([NewTopic(name, settings.partitions, configs=dict(configs)) for name, configs in wanted.items()])
        for name, outcome in made.items():
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise KafkaError(outcome.code, f"topic {name}: {outcome}")

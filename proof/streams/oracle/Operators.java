import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Puts records through the operators of Kafka Streams.
 *
 * Reads one case a line as JSON and writes one answer a line:
 *
 *   {"operator": "count", "kind": "inner", "size": ms, ..., "records": [[topic, key, value, timestamp, header], ...]}
 *   {"written": [[number of the input, key, value, timestamp, header], ...], "table": {key: value}}
 *   with "full": number of the input, when a suppress has ended the application
 *
 * Topics are "a" and "b"; keys and values are text or null.  A windowed key is "key@start/end".
 */
public class Operators {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TABLE = "the-table";
    private static final Grouped<String, String> TEXT = Grouped.with(Serdes.String(), Serdes.String());

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String folder = Files.createTempDirectory("moldau-streams").toString();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line), folder)));
            out.flush();
        }
    }

    private static ObjectNode answer(JsonNode given, String folder) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "oracle");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        if (given.path("store").asText().equals("memory")) {
            properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        }
        // Joins emit waiting records as soon as they can, and not once a second of the wall clock.
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        StreamsBuilder builder = new StreamsBuilder();
        new Operators(given, builder).build();
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode written = answer.putArray("written");
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties, Instant.EPOCH)) {
            StringSerializer serializer = new StringSerializer();
            TestInputTopic<String, String> a = driver.createInputTopic("a", serializer, serializer);
            TestInputTopic<String, String> b = hasTwo(given) ? driver.createInputTopic("b", serializer, serializer) : a;
            TestOutputTopic<String, String> o = driver.createOutputTopic("o", new StringDeserializer(), new StringDeserializer());
            int number = 0;
            for (JsonNode record : given.get("records")) {
                RecordHeaders headers = new RecordHeaders();
                headers.add("h", record.get(4).asText().getBytes(StandardCharsets.UTF_8));
                try {
                    (record.get(0).asText().equals("a") ? a : b)
                        .pipeInput(new TestRecord<>(text(record.get(1)), text(record.get(2)), headers, record.get(3).asLong()));
                } catch (StreamsException full) {
                    answer.put("full", number);
                    return answer;
                }
                for (TestRecord<String, String> result : o.readRecordsToList()) {
                    ArrayNode row = written.addArray().add(number).add(result.key()).add(result.value()).add(result.timestamp());
                    Header header = result.headers().lastHeader("h");
                    row.add(header == null ? null : new String(header.value(), StandardCharsets.UTF_8));
                }
                number++;
            }
            KeyValueStore<String, Object> store = driver.getKeyValueStore(TABLE);
            if (store != null) {
                ObjectNode table = answer.putObject("table");
                try (KeyValueIterator<String, Object> rows = store.all()) {
                    rows.forEachRemaining(row -> table.put(row.key, String.valueOf(row.value)));
                }
            }
        }
        return answer;
    }

    private static boolean hasTwo(JsonNode given) {
        return given.get("topics").asInt() == 2;
    }

    private static String text(JsonNode value) {
        return value.isNull() ? null : value.asText();
    }

    private final JsonNode given;
    private final StreamsBuilder builder;

    private Operators(JsonNode given, StreamsBuilder builder) {
        this.given = given;
        this.builder = builder;
    }

    private Duration ms(String name) {
        return Duration.ofMillis(given.get(name).asLong());
    }

    private void build() {
        String operator = given.get("operator").asText();
        String kind = given.path("kind").asText();
        switch (operator) {
            case "grouped" -> write(aggregated(stream("a").groupByKey(TEXT)));
            case "regrouped" -> write(aggregated(stream("a").groupBy((key, value) -> value == null ? null : group(value))));
            case "windowed" -> write(closing(windowed(stream("a").groupByKey(TEXT).windowedBy(timeWindows()).emitStrategy(strategy()))));
            case "sessions" -> write(closing(sessions(stream("a").groupByKey(TEXT)
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms("gap"), ms("grace"))).emitStrategy(strategy()))));
            case "sliding" -> write(closing(windowed(stream("a").groupByKey(TEXT)
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms("size"), ms("grace"))).emitStrategy(strategy()))));
            case "cogrouped" -> write(cogrouped().aggregate(() -> "", Materialized.as(TABLE)));
            case "cogrouped windowed" -> write(closing(cogrouped().windowedBy(timeWindows())
                .aggregate(() -> "", this.<String, WindowStore<Bytes, byte[]>>kept(Serdes.String()))));
            case "cogrouped sliding" -> write(closing(cogrouped()
                .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms("size"), ms("grace")))
                .aggregate(() -> "", this.<String, WindowStore<Bytes, byte[]>>kept(Serdes.String()))));
            case "cogrouped sessions" -> write(closing(cogrouped()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms("gap"), ms("grace")))
                .aggregate(() -> "", (key, one, other) -> one + other, this.<String, SessionStore<Bytes, byte[]>>kept(Serdes.String()))));
            case "time limit" -> {
                Suppressed.EagerBufferConfig rows = Suppressed.BufferConfig.maxRecords(given.get("most").asLong());
                KTable<String, String> table = aggregated(stream("a").groupByKey(TEXT));
                write(given.get("stops").asBoolean()
                    ? table.suppress(Suppressed.untilTimeLimit(ms("wait"), rows.shutDownWhenFull()))
                    : table.suppress(Suppressed.untilTimeLimit(ms("wait"), rows.emitEarlyWhenFull())));
            }
            case "versioned" -> {
                KTable<String, String> table = versioned("b");
                Joined<String, String, String> how = Joined.with(Serdes.String(), Serdes.String(), Serdes.String(), "joined");
                if (!given.get("join_grace").isNull()) {
                    how = how.withGracePeriod(ms("join_grace"));
                }
                KStream<String, String> joined = kind.equals("left")
                    ? stream("a").leftJoin(table, Operators::joined, how) : stream("a").join(table, Operators::joined, how);
                joined.to("o");
            }
            case "versioned filtered" -> {
                KTable<String, String> table = versioned("b").filter((key, value) -> value.compareTo("q") < 0).mapValues(value -> value + "!");
                stream("a").leftJoin(table, Operators::joined).to("o");
                table.toStream().to("o");
            }
            case "versioned tables" -> write(tables(kind, versioned("a"), given.get("both").asBoolean() ? versioned("b") : table("b")));
            case "versioned grouped" -> write(groupedTable(versioned("a")));
            case "versioned foreign key" -> {
                Materialized<String, String, KeyValueStore<Bytes, byte[]>> as = Materialized.as(TABLE);
                KTable<String, String> right = given.get("both").asBoolean() ? versioned("b") : builder.table("b");
                write(kind.equals("left")
                    ? versioned("a").leftJoin(right, Operators::foreignKey, Operators::joined, as)
                    : versioned("a").join(right, Operators::foreignKey, Operators::joined, as));
            }
            case "streams" -> streams(kind);
            case "stream table" -> {
                KTable<String, String> table = builder.table("b", Materialized.as(TABLE));
                KStream<String, String> joined = kind.equals("left")
                    ? stream("a").leftJoin(table, Operators::joined) : stream("a").join(table, Operators::joined);
                joined.to("o");
            }
            case "global" -> {
                GlobalKTable<String, String> table = builder.globalTable("b", Materialized.as(TABLE));
                KeyValueMapper<String, String, String> mapper = (key, value) -> value == null ? null : foreignKey(value);
                KStream<String, String> joined = kind.equals("left")
                    ? stream("a").leftJoin(table, mapper, Operators::joined) : stream("a").join(table, mapper, Operators::joined);
                joined.to("o");
            }
            case "tables" -> write(tables(kind, table("a"), table("b")));
            case "tables grouped" -> write(groupedTable(tables(kind, table("a"), table("b"))));
            case "table grouped" -> write(groupedTable(table("a")));
            case "count grouped" -> write(groupedTable(stream("a").groupByKey(TEXT).count().mapValues(count -> group("" + (char) ('p' + count % 3)))));
            case "table filtered" -> write(table("a").filter((key, value) -> value.compareTo("q") < 0).mapValues(value -> value + "!"));
            case "foreign key" -> {
                Materialized<String, String, KeyValueStore<Bytes, byte[]>> as = Materialized.as(TABLE);
                write(kind.equals("left")
                    ? table("a").leftJoin(builder.table("b"), Operators::foreignKey, Operators::joined, as)
                    : table("a").join(builder.table("b"), Operators::foreignKey, Operators::joined, as));
            }
            case "stateless" -> {
                KStream<String, String> kept = stream("a").filter((key, value) -> value != null)
                    .flatMapValues(value -> java.util.List.of(value, value + "'"));
                java.util.Map<String, KStream<String, String>> parts = kept.split(Named.as("part-"))
                    .branch((key, value) -> value.compareTo("q") < 0, Branched.as("low"))
                    .defaultBranch(Branched.as("high"));
                parts.get("part-low").mapValues(value -> "low " + value).merge(parts.get("part-high"))
                    .map((key, value) -> KeyValue.pair(value, key + "=" + value)).to("o");
            }
            default -> throw new IllegalArgumentException(operator);
        }
    }

    private KStream<String, String> stream(String topic) {
        return builder.stream(topic);
    }

    private KTable<String, String> table(String topic) {
        return builder.table(topic, Materialized.as("table-" + topic));
    }

    private KTable<String, String> versioned(String topic) {
        return builder.table(topic, Materialized.as(Stores.persistentVersionedKeyValueStore(
            "versions-" + topic, ms("history"), ms("segment"))));
    }

    /** The second stream changes its key, so it goes through a repartition. */
    private CogroupedKStream<String, String> cogrouped() {
        return stream("a").groupByKey(TEXT).<String>cogroup(Operators::added)
            .cogroup(stream("b").groupBy((key, value) -> key, TEXT), Operators::addedBehind);
    }

    private EmitStrategy strategy() {
        return isOnClose() ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
    }

    private boolean isOnClose() {
        return given.path("final").asText().equals("emit");
    }

    private TimeWindows timeWindows() {
        return TimeWindows.ofSizeAndGrace(ms("size"), ms("grace")).advanceBy(ms("advance"));
    }

    private KTable<String, String> aggregated(KGroupedStream<String, String> grouped) {
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> as = Materialized.as(TABLE);
        return switch (given.get("by").asText()) {
            case "count" -> grouped.count().mapValues(String::valueOf, as);
            case "reduce" -> grouped.reduce(Operators::reduced, as);
            default -> grouped.aggregate(() -> "", Operators::added, as);
        };
    }

    private KTable<Windowed<String>, String> windowed(TimeWindowedKStream<String, String> grouped) {
        return switch (given.get("by").asText()) {
            case "count" -> grouped.count(this.<Long, WindowStore<Bytes, byte[]>>kept(Serdes.Long()))
                .mapValues(value -> value == null ? null : String.valueOf(value));
            case "reduce" -> grouped.reduce(Operators::reduced, this.<String, WindowStore<Bytes, byte[]>>kept(Serdes.String()));
            default -> grouped.aggregate(() -> "", Operators::added, this.<String, WindowStore<Bytes, byte[]>>kept(Serdes.String()));
        };
    }

    private KTable<Windowed<String>, String> sessions(SessionWindowedKStream<String, String> grouped) {
        return switch (given.get("by").asText()) {
            case "count" -> grouped.count(this.<Long, SessionStore<Bytes, byte[]>>kept(Serdes.Long()))
                .mapValues(value -> value == null ? null : String.valueOf(value));
            case "reduce" -> grouped.reduce(Operators::reduced, this.<String, SessionStore<Bytes, byte[]>>kept(Serdes.String()));
            default -> grouped.aggregate(() -> "", Operators::added, (key, one, other) -> one + other,
                this.<String, SessionStore<Bytes, byte[]>>kept(Serdes.String()));
        };
    }

    /** With onWindowClose a store has to outlast its windows: otherwise a leap in time deletes windows before they are told. */
    private <V, S extends StateStore> Materialized<String, V, S> kept(Serde<V> serde) {
        Materialized<String, V, S> made = Materialized.<String, V, S>with(Serdes.String(), serde);
        return isOnClose() ? made.withRetention(Duration.ofDays(1)) : made;
    }

    private KTable<Windowed<String>, String> closing(KTable<Windowed<String>, String> table) {
        return switch (given.get("final").asText()) {
            case "suppress" -> table.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
            case "bounded" -> table.suppress(Suppressed.untilWindowCloses(
                Suppressed.BufferConfig.maxRecords(given.get("most").asLong()).shutDownWhenFull()));
            default -> table;
        };
    }

    private KTable<String, String> tables(String kind, KTable<String, String> a, KTable<String, String> b) {
        return switch (kind) {
            case "left" -> a.leftJoin(b, Operators::joined);
            case "outer" -> a.outerJoin(b, Operators::joined);
            default -> a.join(b, Operators::joined);
        };
    }

    private KTable<String, String> groupedTable(KTable<String, String> table) {
        KGroupedTable<String, String> grouped = table.groupBy((key, value) -> KeyValue.pair(group(value), value));
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> as = Materialized.as(TABLE);
        return switch (given.get("by").asText()) {
            case "count" -> grouped.count().mapValues(String::valueOf, as);
            case "reduce" -> grouped.reduce((one, value) -> one + "+" + value, (one, value) -> one + "-" + value, as);
            default -> grouped.aggregate(() -> "", (key, value, one) -> one + "+" + value, (key, value, one) -> one + "-" + value, as);
        };
    }

    private void streams(String kind) {
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(1000), ms("grace"))
            .before(ms("before")).after(ms("after"));
        KStream<String, String> a = stream("a");
        KStream<String, String> b = stream("b");
        KStream<String, String> joined = switch (kind) {
            case "left" -> a.leftJoin(b, Operators::joined, windows);
            case "outer" -> a.outerJoin(b, Operators::joined, windows);
            default -> a.join(b, Operators::joined, windows);
        };
        joined.to("o");
    }

    private static <K> void write(KTable<K, String> table) {
        table.toStream().map((key, value) -> KeyValue.pair(named(key), value)).to("o");
    }

    private static String named(Object key) {
        if (key instanceof Windowed<?> windowed) {
            return windowed.key() + "@" + windowed.window().start() + "/" + windowed.window().end();
        }
        return (String) key;
    }

    /** A value that begins with "x" takes a row away. */
    private static String reduced(String one, String value) {
        return value != null && value.startsWith("x") ? null : one + "," + value;
    }

    private static String added(String key, String value, String one) {
        return value != null && value.startsWith("x") ? null : one + "," + value;
    }

    /** What the second stream of a cogroup adds. */
    private static String addedBehind(String key, String value, String one) {
        return value != null && value.startsWith("x") ? null : one + ";" + value;
    }

    private static String joined(String one, String other) {
        return one + "|" + other;
    }

    private static String group(String value) {
        return value.substring(0, 1);
    }

    /** A value that begins with "n" names no other row. */
    private static String foreignKey(String value) {
        return value.startsWith("n") ? null : group(value);
    }
}

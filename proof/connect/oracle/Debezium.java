// Runs the task of Debezium's PostgreSQL connector.  Reads one case a line, {"config": {...}, "until": topic}, and writes one record a line,
// up to the first record of that topic; then an empty line.  Keys and values are written as Kafka's JsonConverter writes them, each schema
// once, as {"schema": its number, "is": {...}}, in the line before the first record that names the number.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.connector.postgresql.PostgresConnectorTask;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

public class Debezium {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                run(JSON.readTree(line), out);
            } catch (Throwable error) {
                error.printStackTrace();
                out.println(JSON.writeValueAsString(Map.of("error", String.valueOf(error))));
            }
            out.println();
            out.flush();
        }
        System.exit(0);
    }

    static void run(JsonNode one, PrintStream out) throws Exception {
        Map<String, String> config = new HashMap<>();
        one.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        Writer writer = new Writer(out);
        PostgresConnectorTask task = new PostgresConnectorTask();
        task.initialize(new Context(config));
        task.start(config);
        try {
            boolean ends = false;
            while (!ends) {
                List<SourceRecord> records = task.poll();
                if (records == null) {
                    continue;
                }
                for (SourceRecord record : records) {
                    ObjectNode shown = JSON.createObjectNode();
                    shown.put("topic", record.topic());
                    shown.set("key", writer.tree(record.keySchema(), record.key()));
                    shown.set("value", writer.tree(record.valueSchema(), record.value()));
                    ObjectNode headers = shown.putObject("headers");
                    for (Header header : record.headers()) {
                        headers.set(header.key(), writer.tree(header.schema(), header.value()));
                    }
                    out.println(JSON.writeValueAsString(shown));
                    task.commitRecord(record, null);
                    ends |= record.topic().equals(one.get("until").asText());
                }
                task.commit();
            }
        } finally {
            task.stop();
        }
    }

    static class Writer {
        final PrintStream out;
        final Map<Schema, Integer> known = new IdentityHashMap<>();
        final JsonConverter converter = new JsonConverter();

        Writer(PrintStream out) {
            this.out = out;
            converter.configure(Map.of("schemas.enable", false, "converter.type", "value", "replace.null.with.default", false));
        }

        JsonNode tree(Schema schema, Object value) throws Exception {
            if (schema == null && value == null) {
                return null;
            }
            Integer number = known.get(schema);
            if (number == null) {
                number = known.size();
                known.put(schema, number);
                ObjectNode told = JSON.createObjectNode();
                told.put("schema", number);
                told.set("is", schema == null ? null : converter.asJsonSchema(schema));
                out.println(JSON.writeValueAsString(told));
            }
            ObjectNode found = JSON.createObjectNode();
            found.put("schema", number);
            byte[] data = converter.fromConnectData("", schema, value);
            found.set("payload", data == null ? null : JSON.readTree(data));
            return found;
        }
    }

    record Context(Map<String, String> configs) implements SourceTaskContext {
        @Override
        public OffsetStorageReader offsetStorageReader() {
            return new OffsetStorageReader() {
                @Override
                public <T> Map<String, Object> offset(Map<String, T> partition) {
                    return null;
                }

                @Override
                public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
                    return new HashMap<>();
                }
            };
        }

        @Override
        public PluginMetrics pluginMetrics() {
            return null;
        }
    }
}

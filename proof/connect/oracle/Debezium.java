// Runs the task of Debezium's PostgreSQL connector.  Reads one case a line, {"config": {...}, "until": topic}, and writes one record a line,
// up to the first record of that topic; then an empty line.  Keys and values come with their schemas, as Kafka's JsonConverter writes them.
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
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
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
        JsonConverter keys = new JsonConverter();
        keys.configure(Map.of("schemas.enable", true, "converter.type", "key", "replace.null.with.default", false));
        JsonConverter values = new JsonConverter();
        values.configure(Map.of("schemas.enable", true, "converter.type", "value", "replace.null.with.default", false));
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
                    shown.set("key", tree(keys.fromConnectData(record.topic(), record.keySchema(), record.key())));
                    shown.set("value", tree(values.fromConnectData(record.topic(), record.valueSchema(), record.value())));
                    ObjectNode headers = shown.putObject("headers");
                    for (Header header : record.headers()) {
                        headers.set(header.key(), tree(values.fromConnectData(record.topic(), header.schema(), header.value())));
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

    static JsonNode tree(byte[] data) throws Exception {
        return data == null ? null : JSON.readTree(data);
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

// Applies Kafka's own transforms and JSON converter to records.  Reads one case a line and writes one answer a line, both JSON.
// A case: {"type": class, "config": {...}, "topic", "partition", "timestamp", "key", "value": JSON with schemas or without,
// "schemas": bool, "offset": number or null}.  With an offset the record is a sink's, else a source's.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

public class Transforms {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    static byte[] bytes(JsonNode node) throws Exception {
        return node == null || node.isNull() ? null : JSON.writeValueAsBytes(node);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static ObjectNode answer(JsonNode one) {
        ObjectNode found = JSON.createObjectNode();
        try {
            JsonConverter converter = new JsonConverter();
            converter.configure(Map.of("schemas.enable", one.get("schemas").asBoolean(), "converter.type", "value"));
            Map<String, String> config = new HashMap<>();
            one.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
            String topic = one.get("topic").asText();
            SchemaAndValue key = converter.toConnectData(topic, bytes(one.get("key")));
            SchemaAndValue value = converter.toConnectData(topic, bytes(one.get("value")));
            Long timestamp = one.get("timestamp").isNull() ? null : one.get("timestamp").asLong();
            Integer partition = one.get("partition").asInt();
            ConnectRecord record = one.get("offset").isNull()
                ? new SourceRecord(Map.of(), Map.of(), topic, partition, key.schema(), key.value(), value.schema(), value.value(), timestamp)
                : new SinkRecord(topic, partition, key.schema(), key.value(), value.schema(), value.value(), one.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME);
            Transformation transformation = (Transformation) Class.forName(one.get("type").asText()).getDeclaredConstructor().newInstance();
            transformation.configure(config);
            record = transformation.apply(record);
            if (record == null) {
                found.put("dropped", true);
                return found;
            }
            found.put("topic", record.topic());
            found.set("key", tree(converter.fromConnectData(topic, record.keySchema(), record.key())));
            found.set("value", tree(converter.fromConnectData(topic, record.valueSchema(), record.value())));
            ArrayNode headers = found.putArray("headers");
            SimpleHeaderConverter texts = new SimpleHeaderConverter();
            for (Object header : record.headers()) {
                Header each = (Header) header;
                byte[] text = texts.fromConnectHeader(topic, each.key(), each.schema(), each.value());
                headers.addArray().add(each.key()).add(text == null ? null : new String(text, StandardCharsets.UTF_8));
            }
        } catch (Throwable error) {
            found.removeAll();
            found.put("error", String.valueOf(error));
        }
        return found;
    }

    static JsonNode tree(byte[] data) throws Exception {
        return data == null ? null : JSON.readTree(data);
    }
}

// Asks JsonSchemaData and ProtobufData, the classes behind Confluent's JsonSchemaConverter and ProtobufConverter.
// Reads one case a line and writes one answer a line, both JSON.  `options` are options of the class.
// {"kind": "JSON", "connect": {"schema", "payload"}}: the JSON Schema, the JSON of the value, and what is read from them again
// {"kind": "JSON", "json": schema, "data": value}: what is read
// {"kind": "PROTOBUF", "connect": …}: the file as FileDescriptorProto, the bytes of the message, and what is read from them again
// {"kind": "PROTOBUF", "proto": text, "bytes": base64}: what is read
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.DynamicMessage;
import io.confluent.connect.json.JsonSchemaData;
import io.confluent.connect.json.JsonSchemaDataConfig;
import io.confluent.connect.protobuf.ProtobufData;
import io.confluent.connect.protobuf.ProtobufDataConfig;
import io.confluent.kafka.schemaregistry.json.JsonSchema;
import io.confluent.kafka.schemaregistry.json.jackson.Jackson;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema;
import io.confluent.kafka.serializers.protobuf.ProtobufSchemaAndValue;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

public class ConfluentSchemas {
    static final ObjectMapper JSON = new ObjectMapper();
    static final ObjectMapper THEIRS = Jackson.newObjectMapper();
    static final JsonConverter CONVERTER = new JsonConverter();

    public static void main(String[] arguments) throws Exception {
        CONVERTER.configure(Map.of("schemas.enable", true, "converter.type", "value", "replace.null.with.default", false));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode one = JSON.readTree(line);
                Map<String, Object> options = new HashMap<>();
                one.path("options").fields().forEachRemaining(entry -> options.put(entry.getKey(), entry.getValue().asText()));
                if (one.get("kind").asText().equals("JSON")) {
                    askJson(one, new JsonSchemaData(new JsonSchemaDataConfig(options)), answer);
                } else {
                    askProtobuf(one, new ProtobufData(new ProtobufDataConfig(options)), answer);
                }
            } catch (Throwable error) {
                answer.removeAll();
                answer.put("error", String.valueOf(error) + (error.getCause() == null ? "" : " " + error.getCause()));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    static SchemaAndValue given(JsonNode one) throws Exception {
        return CONVERTER.toConnectData("", JSON.writeValueAsBytes(one.get("connect")));
    }

    static JsonNode shown(Schema schema, Object value) throws Exception {
        return JSON.readTree(CONVERTER.fromConnectData("", schema, value));
    }

    static void askJson(JsonNode one, JsonSchemaData data, ObjectNode answer) throws Exception {
        JsonSchema schema;
        byte[] body;
        if (one.has("json")) {
            schema = new JsonSchema(JSON.writeValueAsString(one.get("json")));
            body = JSON.writeValueAsBytes(one.get("data"));
        } else {
            SchemaAndValue given = given(one);
            schema = data.fromConnectSchema(given.schema());
            body = THEIRS.writeValueAsBytes(data.fromConnectData(given.schema(), given.value()));
            answer.set("schema", JSON.readTree(schema.canonicalString()));
            answer.set("data", JSON.readTree(body));
            schema = new JsonSchema(schema.canonicalString());
        }
        Schema read = data.toConnectSchema(schema);
        answer.set("read", shown(read, data.toConnectData(read, THEIRS.readTree(body))));
    }

    static void askProtobuf(JsonNode one, ProtobufData data, ObjectNode answer) throws Exception {
        ProtobufSchema schema;
        byte[] bytes;
        if (one.has("proto")) {
            schema = new ProtobufSchema(one.get("proto").asText());
            bytes = Base64.getDecoder().decode(one.get("bytes").asText());
        } else {
            SchemaAndValue given = given(one);
            ProtobufSchemaAndValue made = data.fromConnectData(given.schema(), given.value());
            schema = made.getSchema();
            bytes = ((com.google.protobuf.Message) made.getValue()).toByteArray();
            String name = schema.name();
            answer.put("file", Base64.getEncoder().encodeToString(schema.toDescriptor().getFile().toProto().toByteArray()));
            answer.put("text", schema.canonicalString());
            answer.put("bytes", Base64.getEncoder().encodeToString(bytes));
            schema = new ProtobufSchema(schema.canonicalString()).copy(name);
        }
        SchemaAndValue read = data.toConnectData(schema, DynamicMessage.parseFrom(schema.toDescriptor(), bytes));
        answer.set("read", shown(read.schema(), read.value()));
    }
}

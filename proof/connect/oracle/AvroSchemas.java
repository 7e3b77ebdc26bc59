// Asks AvroData, the class that Confluent's AvroConverter makes schemas and values with, in the copy that Apicurio publishes.
// Reads one case a line and writes one answer a line, both JSON:
// {"connect": {"schema", "payload"}}: the Avro schema, the bytes of the value, and what is read from them again
// {"avro": schema, "bytes": base64}: what is read
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.utils.converter.avro.AvroData;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

public class AvroSchemas {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonConverter CONVERTER = new JsonConverter();

    public static void main(String[] arguments) throws Exception {
        CONVERTER.configure(Map.of("schemas.enable", true, "converter.type", "value", "replace.null.with.default", false));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                ask(JSON.readTree(line), answer);
            } catch (Throwable error) {
                answer.removeAll();
                answer.put("error", String.valueOf(error));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    static void ask(JsonNode one, ObjectNode answer) throws Exception {
        AvroData data = new AvroData(100);
        if (one.has("avro")) {
            Schema schema = new Schema.Parser().parse(JSON.writeValueAsString(one.get("avro")));
            answer.set("read", read(data, schema, Base64.getDecoder().decode(one.get("bytes").asText())));
            return;
        }
        SchemaAndValue given = CONVERTER.toConnectData("", JSON.writeValueAsBytes(one.get("connect")));
        Schema schema = data.fromConnectSchema(given.schema());
        Object value = data.fromConnectData(given.schema(), given.value());
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(bytes, null);
        new GenericDatumWriter<Object>(schema).write(value, encoder);
        encoder.flush();
        answer.set("schema", JSON.readTree(schema.toString()));
        answer.put("bytes", Base64.getEncoder().encodeToString(bytes.toByteArray()));
        answer.set("read", read(data, new Schema.Parser().parse(schema.toString()), bytes.toByteArray()));
    }

    static JsonNode read(AvroData data, Schema schema, byte[] bytes) throws Exception {
        Object value = new GenericDatumReader<Object>(schema).read(null, DecoderFactory.get().binaryDecoder(bytes, null));
        SchemaAndValue found = data.toConnectData(schema, value);
        return JSON.readTree(CONVERTER.fromConnectData("", found.schema(), found.value()));
    }
}

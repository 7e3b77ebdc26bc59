import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * What Apache Kafka says to a tiered topic's options.  A line in: whether the system is enabled, whether the topic was tiered, key=value;…,
 * between tabs.  A line out: "ok" or why not.  Run: java -cp '<the jars>/*' Answers.java
 */
public class Answers {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, "UTF-8");
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split("\t", -1);
            Map<String, String> wanted = new HashMap<>();
            for (String pair : parts[2].split(";")) {
                if (!pair.isEmpty()) wanted.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
            }
            Map<String, String> existing = parts[1].equals("true") ? Map.of("remote.storage.enable", "true") : Map.of();
            try {
                LogConfig.validate(existing, wanted, Map.of("segment.bytes", 1 << 30), parts[0].equals("true"));
                System.out.println("ok");
            } catch (RuntimeException refusal) {
                System.out.println(refusal.getMessage());
            }
        }
    }
}

package moldau.oracle;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

/** Asks Java's clients for their choices.  Reads one case a line and writes one line of answers:
 *
 *  hash HEX PARTITIONS                                  murmur2, and the partition of that key
 *  assign NAME TOPIC:COUNT,… MEMBER:INSTANCE:TOPIC+…,…  MEMBER=TOPIC-INDEX+…,…     (INSTANCE may be empty)
 */
public class Choices {
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            out.println(words[0].equals("hash") ? hash(words) : assign(words));
            if (!in.ready()) out.flush();
        }
        out.flush();
    }

    static String hash(String[] words) {
        byte[] key = HexFormat.of().parseHex(words[1]);
        return Utils.murmur2(key) + " " + BuiltInPartitioner.partitionForKey(key, Integer.parseInt(words[2]));
    }

    static String assign(String[] words) {
        Node node = new Node(1, "h", 1);
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : words[2].split(",")) {
            String[] parts = topic.split(":");
            for (int index = 0; index < Integer.parseInt(parts[1]); index++) {
                partitions.add(new PartitionInfo(parts[0], index, node, new Node[] {node}, new Node[] {node}));
            }
        }
        Cluster cluster = new Cluster("c", List.of(node), partitions, Set.of(), Set.of());
        Map<String, ConsumerPartitionAssignor.Subscription> subscriptions = new HashMap<>();
        for (String member : words[3].split(",")) {
            String[] parts = member.split(":", -1);
            List<String> topics = new ArrayList<>(parts[2].isEmpty() ? List.of() : Arrays.asList(parts[2].split("\\+")));
            var subscription = new ConsumerPartitionAssignor.Subscription(topics);
            subscription.setGroupInstanceId(parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]));
            subscriptions.put(parts[0], subscription);
        }
        ConsumerPartitionAssignor assignor = switch (words[1]) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        var assigned = assignor.assign(cluster, new ConsumerPartitionAssignor.GroupSubscription(subscriptions)).groupAssignment();
        List<String> said = new ArrayList<>();
        for (var entry : new TreeMap<>(assigned).entrySet()) {
            List<String> names = new ArrayList<>();
            for (TopicPartition one : entry.getValue().partitions()) names.add(one.topic() + "-" + one.partition());
            Collections.sort(names);
            said.add(entry.getKey() + "=" + String.join("+", names));
        }
        return String.join(",", said);
    }
}

package moldau.oracle;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** One member with Java's consumer; see member.py.  Arguments: servers, topic, group, protocol, commits. */
public final class Member {
    private static volatile boolean leaving = false;

    private static synchronized void note(String kind, String words) {
        byte[] line = (System.nanoTime() + " " + kind + " " + words + "\n").getBytes(StandardCharsets.US_ASCII);
        System.out.write(line, 0, line.length);
        System.out.flush();
    }

    private static String indexes(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).sorted().map(String::valueOf).collect(Collectors.joining(" "));
    }

    public static void main(String[] arguments) throws Exception {
        boolean commitsItself = arguments[4].equals("auto");
        Properties options = new Properties();
        options.put("bootstrap.servers", arguments[0]);
        options.put("group.id", arguments[2]);
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", commitsItself);
        options.put("auto.commit.interval.ms", 400);
        if (arguments[3].equals("consumer")) {
            options.put("group.protocol", "consumer");
        } else {
            String name = switch (arguments[3]) {
                case "range" -> "RangeAssignor";
                case "roundrobin" -> "RoundRobinAssignor";
                case "sticky" -> "StickyAssignor";
                default -> "CooperativeStickyAssignor";
            };
            options.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + name);
            options.put("session.timeout.ms", 6000);
            options.put("heartbeat.interval.ms", 500);
        }
        CountDownLatch left = new CountDownLatch(1);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            leaving = true;
            consumer.wakeup();
            try {
                left.await();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(arguments[1]), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                note("R", indexes(partitions));
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                note("A", indexes(partitions));
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                note("L", indexes(partitions));
            }
        });
        long due = System.nanoTime();
        try {
            while (!leaving) {
                var records = consumer.poll(Duration.ofMillis(200));
                for (TopicPartition partition : records.partitions()) {
                    List<ConsumerRecord<byte[], byte[]>> those = records.records(partition);
                    note("G", partition.partition() + ":" + those.get(0).offset() + "-" + those.get(those.size() - 1).offset());
                }
                if (!commitsItself && System.nanoTime() > due) {
                    due = System.nanoTime() + 300_000_000L;
                    try {
                        consumer.commitSync();
                    } catch (WakeupException woken) {
                        throw woken;
                    } catch (KafkaException error) {
                        System.err.println("commit: " + error);
                    }
                }
            }
        } catch (WakeupException woken) {
            // SIGTERM
        } finally {
            consumer.close();
            note("E", "");
            left.countDown();
        }
    }
}

package org.moldau.proof;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java clients of a load: an idempotent producer, a transactional copier, two members of a consumer group (KIP-848), and two
 * members of a share group (KIP-932).  Each line of the output is one fact; proof/cluster/java_load.py reads them.
 *
 * Arguments: bootstrap servers, the topic to write, the topic of the copies, the topic of the share group, and the number of partitions.
 * The line "writer" on the standard input ends the producer, and its end ends everything.
 */
public final class Load {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final int ABORTED_EVERY = 7;
    private static final int RELEASED_EVERY = 50;
    private static final int LONGEST_UNSENT = 2000;
    private static final int PAUSE_MS = 10;

    private static final List<Class<?>> FATAL = List.of(ProducerFencedException.class, InvalidProducerEpochException.class,
            OutOfOrderSequenceException.class, AuthorizationException.class);

    private static volatile boolean writing = true;
    private static volatile boolean running = true;
    private static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String source = arguments[1];
        String copies = arguments[2];
        String queue = arguments[3];
        int partitions = Integer.parseInt(arguments[4]);
        beginAtTheStart("java-queue");
        List<Thread> threads = new ArrayList<>();
        start(threads, "writer", () -> write(source, partitions));
        start(threads, "copier", () -> copy(source, copies));
        for (String name : List.of("reader 1", "reader 2")) {
            start(threads, name, () -> read(name, source));
        }
        for (String name : List.of("member 1", "member 2")) {
            start(threads, name, () -> take(queue));
        }
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            writing = false;
        }
        writing = false;
        running = false;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void say(String fact) {
        System.out.println(fact);
    }

    private static void start(List<Thread> threads, String name, Runnable work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable error) {
                say("wrong " + name + ": " + error);
                error.printStackTrace();
            }
            say("ended " + name);
        }, name);
        threads.add(thread);
        thread.start();
    }

    private static Properties settings(String... more) {
        Properties made = new Properties();
        made.put("bootstrap.servers", bootstrap);
        for (int index = 0; index < more.length; index += 2) {
            made.put(more[index], more[index + 1]);
        }
        return made;
    }

    private static void beginAtTheStart(String group) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            AlterConfigOp set = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        }
    }

    private static void write(String topic, int partitions) {
        AtomicInteger unsent = new AtomicInteger();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings("acks", "all", "linger.ms", "5"),
                new StringSerializer(), new StringSerializer())) {
            for (int value = 0; writing; pause()) {
                if (unsent.get() > LONGEST_UNSENT) {
                    continue;
                }
                for (int partition = 0; partition < partitions; partition++) {
                    unsent.incrementAndGet();
                    String fact = partition + " " + value;
                    producer.send(new ProducerRecord<>(topic, partition, null, Integer.toString(value)), (metadata, error) -> {
                        unsent.decrementAndGet();
                        say(error == null ? "acknowledged " + fact : "wrong writer: " + fact + " was refused: " + error);
                    });
                }
                value++;
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void copy(String source, String copies) {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings("group.id", "java-copier", "isolation.level", "read_committed",
                "enable.auto.commit", "false", "auto.offset.reset", "earliest"), new StringDeserializer(), new StringDeserializer());
        KafkaProducer<String, String> producer = transactional();
        consumer.subscribe(List.of(source));
        int ended = 0;
        while (running) {
            ConsumerRecords<String, String> records = polled(consumer);
            if (records.isEmpty()) {
                continue;
            }
            Map<TopicPartition, OffsetAndMetadata> after = new HashMap<>();
            Map<TopicPartition, String> last = new HashMap<>();
            try {
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    TopicPartition where = new TopicPartition(source, record.partition());
                    producer.send(new ProducerRecord<>(copies, record.partition(), null, record.value()));
                    after.put(where, new OffsetAndMetadata(record.offset() + 1));
                    last.put(where, record.value());
                }
                producer.sendOffsetsToTransaction(after, consumer.groupMetadata());
                if (++ended % ABORTED_EVERY == 0) {
                    throw new KafkaException("aborted of its own will");
                }
                untilDone(producer::commitTransaction);
                last.forEach((where, value) -> say("copied " + where.partition() + " " + value));
                say("committed");
            } catch (KafkaException error) {
                if (FATAL.stream().anyMatch(kind -> isOf(kind, error))) {
                    say("wrong copier: " + error);
                }
                note(error);
                producer = aborted(producer);
                goBack(consumer, records);
            }
        }
        producer.close();
        consumer.close();
    }

    private static KafkaProducer<String, String> transactional() {
        KafkaProducer<String, String> made = new KafkaProducer<>(settings("transactional.id", "java-copier",
                "transaction.timeout.ms", "300000"), new StringSerializer(), new StringSerializer());
        untilDone(made::initTransactions);
        return made;
    }

    private static boolean isOf(Class<?> kind, Throwable error) {
        return error != null && (kind.isInstance(error) || isOf(kind, error.getCause()));
    }

    /** Returns the producer, or another one that takes its place because it can go on no more. */
    private static KafkaProducer<String, String> aborted(KafkaProducer<String, String> producer) {
        try {
            untilDone(producer::abortTransaction);
            say("aborted");
            return producer;
        } catch (KafkaException error) {
            note(error);
            say("replaced " + error);
            producer.close(Duration.ZERO);
            return transactional();
        }
    }

    private static void goBack(KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> all) {
        for (TopicPartition where : all.partitions()) {
            if (consumer.assignment().contains(where)) {
                consumer.seek(where, all.records(where).get(0).offset());
            }
        }
    }

    /** Calls again after each error that may be tried again.  Kafka's producer continues the call that it has begun. */
    private static void untilDone(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                note(error);
            }
        }
    }

    private static void note(KafkaException error) {
        say("told " + error.getClass().getSimpleName() + " " + error.getMessage());
        System.err.println("[" + LocalDateTime.now() + "] " + Thread.currentThread().getName() + " was told: " + error);
    }

    private static ConsumerRecords<String, String> polled(KafkaConsumer<String, String> consumer) {
        try {
            return consumer.poll(POLL);
        } catch (RetriableException error) {
            note(error);
            return ConsumerRecords.empty();
        }
    }

    private static void read(String name, String topic) {
        Map<Integer, Long> last = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings("group.id", "java-readers", "group.protocol", "consumer",
                "auto.offset.reset", "earliest", "auto.commit.interval.ms", "500"), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> given) {
                    given.forEach(one -> last.remove(one.partition()));
                }
            });
            while (running) {
                for (ConsumerRecord<String, String> record : polled(consumer)) {
                    long value = Long.parseLong(record.value());
                    Long before = last.put(record.partition(), value);
                    if (before != null && value != before + 1) {
                        say("jumped " + record.partition() + " " + before + " " + value + " " + name);
                    }
                    say("read " + record.partition() + " " + value);
                }
            }
        }
    }

    private static void take(String topic) {
        int taken = 0;
        try (KafkaShareConsumer<String, String> member = new KafkaShareConsumer<>(settings("group.id", "java-queue",
                "share.acknowledgement.mode", "explicit"), new StringDeserializer(), new StringDeserializer())) {
            member.subscribe(List.of(topic));
            while (running) {
                Map<Integer, List<Long>> accepted = new HashMap<>();
                try {
                    for (ConsumerRecord<String, String> record : member.poll(POLL)) {
                        say("delivered " + record.partition() + " " + record.offset());
                        if (++taken % RELEASED_EVERY == 0 && record.deliveryCount().orElse((short) 1) == 1) {
                            member.acknowledge(record, AcknowledgeType.RELEASE);
                        } else {
                            member.acknowledge(record, AcknowledgeType.ACCEPT);
                            accepted.computeIfAbsent(record.partition(), partition -> new ArrayList<>()).add(record.offset());
                        }
                    }
                    member.commitSync().forEach((where, error) -> confirmed(where, accepted, error.orElse(null)));
                } catch (RetriableException error) {
                    note(error);
                }
            }
        }
    }

    private static void confirmed(TopicIdPartition where, Map<Integer, List<Long>> accepted, KafkaException error) {
        if (error != null) {
            note(error);
            return;
        }
        for (long offset : accepted.getOrDefault(where.partition(), List.of())) {
            say("accepted " + where.partition() + " " + offset);
        }
    }
}

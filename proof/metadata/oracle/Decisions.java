package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatResponseData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.BrokerRegistrationResponseData;
import org.apache.kafka.common.message.CreatePartitionsRequestData;
import org.apache.kafka.common.message.CreatePartitionsResponseData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.UnregisterBrokerRequestData;
import org.apache.kafka.common.message.UnregisterBrokerResponseData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.BrokerRegistrationReply;
import org.apache.kafka.metadata.FinalizedControllerFeatures;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Asks the classes of Kafka's controller for their decisions.
 *
 * Reads one case a line as JSON and writes one answer a line:
 *
 *   {"seed": 1, "records": [hex, ...], "steps": [{"op": "heartbeat", "version": 1, "at": ms, "request": hex}, ...]}
 *   {"steps": [{"records": [hex, ...], "response": hex or null, "error": null or "SomeException: text"}, ...]}
 *
 * Records and messages are Kafka's own bytes.  A step sees what the steps before it have decided.
 */
public class Decisions {
    private static final HexFormat HEX = HexFormat.of();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();
    private static final KafkaConfigSchema SCHEMA = kafka.server.KafkaRaftServer.configSchema();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(new Decisions(JSON.readTree(line)).answers()));
            out.flush();
        }
    }

    /** A clock that stands still between steps. */
    private static final class HandClock implements Time {
        private long nowMs = 0;

        @Override public long milliseconds() {
            return nowMs;
        }

        @Override public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private final JsonNode given;
    private final HandClock clock = new HandClock();
    private final FeatureControlManager features;
    private final ConfigurationControlManager configs;
    private final ClusterControlManager cluster;
    private final ReplicationControlManager replication;
    private long nextOffset = 0;

    private Decisions(JsonNode given) {
        this.given = given;
        LogContext log = new LogContext();
        SnapshotRegistry registry = new SnapshotRegistry(log);
        features = new FeatureControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setQuorumFeatures(new QuorumFeatures(0, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(0)))
            .build();
        configs = new ConfigurationControlManager.Builder()
            .setSnapshotRegistry(registry).setKafkaConfigSchema(SCHEMA).setFeatureControl(features).setStaticConfig(Map.of()).build();
        cluster = new ClusterControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setTime(clock)
            .setClusterId("cluster")
            .setSessionTimeoutNs(9_000_000_000L)
            .setReplicaPlacer(new StripedReplicaPlacer(new Random(given.get("seed").asLong())))
            .setFeatureControlManager(features)
            .setBrokerShutdownHandler(this::shutDown)
            .build();
        replication = new ReplicationControlManager.Builder()
            .setSnapshotRegistry(registry).setConfigurationControl(configs).setClusterControl(cluster).setFeatureControl(features).build();
    }

    private void shutDown(int brokerId, boolean isClean, List<ApiMessageAndVersion> records) {
        replication.handleBrokerShutdown(brokerId, isClean, records);
    }

    private ObjectNode answers() {
        for (JsonNode record : given.get("records")) {
            byte[] data = HEX.parseHex(record.asText());
            replay(SERDE.read(new ByteBufferAccessor(java.nio.ByteBuffer.wrap(data)), data.length).message());
        }
        cluster.activate();
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode steps = answer.putArray("steps");
        for (JsonNode step : given.get("steps")) {
            steps.add(answer(step));
        }
        return answer;
    }

    private ObjectNode answer(JsonNode step) {
        ObjectNode answer = JSON.createObjectNode();
        clock.nowMs = step.path("at").asLong(0);
        short version = (short) step.path("version").asInt(0);
        try {
            List<ApiMessageAndVersion> records = new ArrayList<>();
            Message response = decide(step, version, records);
            ArrayNode written = answer.putArray("records");
            for (ApiMessageAndVersion record : records) {
                ByteBufferAccessor bytes = new ByteBufferAccessor(java.nio.ByteBuffer.allocate(
                    SERDE.recordSize(record, new ObjectSerializationCache())));
                ObjectSerializationCache cache = new ObjectSerializationCache();
                SERDE.recordSize(record, cache);
                SERDE.write(record, cache, bytes);
                written.add(HEX.formatHex(bytes.buffer().array()));
                replay(record.message());
            }
            if (response instanceof BrokerHeartbeatResponseData && isShuttingDown) {
                int brokerId = ((BrokerHeartbeatRequestData) parse(new BrokerHeartbeatRequestData(), step, version)).brokerId();
                cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(brokerId, nextOffset - 1);
            }
            if (response != null) {
                answer.put("response", HEX.formatHex(MessageUtil.toByteBufferAccessor(response, version).buffer().array()));
            }
        } catch (Exception error) {
            answer.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
        return answer;
    }

    private boolean isShuttingDown;

    private Message decide(JsonNode step, short version, List<ApiMessageAndVersion> records) {
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        switch (step.get("op").asText()) {
            case "alter_partition":
                return kept(replication.alterPartition(context, parse(new AlterPartitionRequestData(), step, version)), records);
            case "reassign":
                return kept(replication.alterPartitionReassignments(
                    parse(new AlterPartitionReassignmentsRequestData(), step, version)), records);
            case "elect_leaders":
                return kept(replication.electLeaders(parse(new ElectLeadersRequestData(), step, version)), records);
            case "assign_directories":
                return kept(replication.handleAssignReplicasToDirs(parse(new AssignReplicasToDirsRequestData(), step, version)), records);
            case "heartbeat":
                return heartbeat(parse(new BrokerHeartbeatRequestData(), step, version), records);
            case "register": {
                BrokerRegistrationRequestData request = parse(new BrokerRegistrationRequestData(), step, version);
                Map<String, Short> finalized = new HashMap<>(features.finalizedFeatures(Long.MAX_VALUE).featureMap());
                BrokerRegistrationReply reply = kept(cluster.registerBroker(
                    request, nextOffset, new FinalizedControllerFeatures(finalized, Long.MAX_VALUE), version >= 3), records);
                return new BrokerRegistrationResponseData().setBrokerEpoch(reply.epoch());
            }
            case "unregister": {
                kept(replication.unregisterBroker(parse(new UnregisterBrokerRequestData(), step, version).brokerId()), records);
                return new UnregisterBrokerResponseData();
            }
            case "create_partitions": {
                CreatePartitionsRequestData request = parse(new CreatePartitionsRequestData(), step, version);
                CreatePartitionsResponseData response = new CreatePartitionsResponseData();
                response.setResults(kept(replication.createPartitions(context, new ArrayList<>(request.topics().valuesList())), records));
                return response;
            }
            case "fence_overdue":
                // A call may do no more than throw away an entry for an earlier epoch of a broker.
                while (records.isEmpty() && kept(replication.maybeFenceOneStaleBroker(), records)) {
                }
                return null;
            case "balance":
                kept(replication.maybeBalancePartitionLeaders(), records);
                return null;
            case "elect_uncleanly":
                kept(replication.maybeElectUncleanLeaders(), records);
                return null;
            default:
                throw new IllegalArgumentException("no such step");
        }
    }

    private Message heartbeat(BrokerHeartbeatRequestData request, List<ApiMessageAndVersion> records) {
        cluster.trackBrokerHeartbeat(request.brokerId(), request.brokerEpoch());
        OptionalLong registered = cluster.registerBrokerRecordOffset(request.brokerId());
        if (registered.isEmpty()) {
            throw new org.apache.kafka.common.errors.StaleBrokerEpochException("not registered");
        }
        BrokerHeartbeatReply reply = kept(replication.processBrokerHeartbeat(request, registered.getAsLong()), records);
        isShuttingDown = reply.inControlledShutdown();
        return new BrokerHeartbeatResponseData()
            .setIsCaughtUp(reply.isCaughtUp()).setIsFenced(reply.isFenced()).setShouldShutDown(reply.shouldShutDown());
    }

    private static <T> T kept(ControllerResult<T> result, List<ApiMessageAndVersion> records) {
        records.addAll(result.records());
        return result.response();
    }

    private static <T extends ApiMessage> T parse(T message, JsonNode step, short version) {
        byte[] data = HEX.parseHex(step.get("request").asText());
        message.read(new ByteBufferAccessor(java.nio.ByteBuffer.wrap(data)), version);
        return message;
    }

    private void replay(ApiMessage record) {
        long offset = nextOffset++;
        if (record instanceof RegisterBrokerRecord one) {
            cluster.replay(one, offset);
        } else if (record instanceof UnregisterBrokerRecord one) {
            cluster.replay(one);
        } else if (record instanceof BrokerRegistrationChangeRecord one) {
            cluster.replay(one);
        } else if (record instanceof TopicRecord one) {
            replication.replay(one);
        } else if (record instanceof PartitionRecord one) {
            replication.replay(one);
        } else if (record instanceof PartitionChangeRecord one) {
            replication.replay(one);
        } else if (record instanceof FeatureLevelRecord one) {
            features.replay(one);
        } else if (record instanceof ConfigRecord one) {
            configs.replay(one);
        } else {
            throw new IllegalArgumentException("no such record: " + record);
        }
    }
}

import org.codelibs.opensearch.runner.OpenSearchRunner;

/** One OpenSearch node on 127.0.0.1.  Arguments: a folder, which may exist already, and an HTTP port.  It lives until it is killed. */
public final class OpenSearch {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, settings) -> {
            settings.put("http.port", port);
            settings.put("transport.port", "0");
            settings.put("network.host", "127.0.0.1");
            settings.put("discovery.type", "single-node");
            settings.put("cluster.routing.allocation.disk.threshold_enabled", false);
        });
        runner.build(OpenSearchRunner.newConfigs().clusterName("moldau").numOfNode(1).basePath(args[0]));
        runner.ensureYellow();
        System.out.println("OpenSearch started");
        Thread.currentThread().join();
    }
}

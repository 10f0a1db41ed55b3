package journalfs.tests;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnection;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQTopic;
import org.apache.activemq.store.PersistenceAdapter;

/**
 * Writes a store of ActiveMQ 5 (make DIR clean|kill [key=value...]), says what its broker delivers (drain DIR
 * [reattach=CLIENT:SUBSCRIPTION:TOPIC:SELECTOR,...], for subscriptions of topics that the broker does not list), or
 * sends texts to a destination (send DIR DESTINATION COUNT). It is KahaDB, or with amq=1 an AMQ Message Store.
 * Or takes what the broker at a URL delivers (take URL (queue://NAME | CLIENT SUBSCRIPTION TOPIC SELECTOR)...).
 */
public final class KahaBroker {
    private static String url = "vm://localhost?create=false&jms.watchTopicAdvisories=false";
    private static BrokerService broker;
    private static final Map<String, String> options = new HashMap<>();

    public static void main(String[] args) throws Exception {
        for (int i = 2; i < args.length; i++) {
            int at = args[i].indexOf('=');
            if (at > 0) {
                options.put(args[i].substring(0, at), args[i].substring(at + 1));
            }
        }
        if (args[0].equals("take")) {
            url = args[1];
            take(args);
            System.exit(0);
        }
        start(new File(args[1]));
        if (args[0].equals("make")) {
            make();
            if (args[2].equals("kill")) {
                Runtime.getRuntime().halt(0);
            }
        } else if (args[0].equals("send")) {
            send(args[2], Integer.parseInt(args[3]), KahaBroker::text);
        } else {
            drain();
        }
        broker.stop();
        broker.waitUntilStopped();
        System.exit(0);
    }

    private static int option(String name, int fallback) {
        return options.containsKey(name) ? Integer.parseInt(options.get(name)) : fallback;
    }

    private static void start(File directory) throws Exception {
        broker = new BrokerService();
        broker.setBrokerName("localhost");
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setAdvisorySupport(false);
        broker.setPersistenceAdapter(option("amq", 0) == 1 ? amq(directory) : kaha(directory));
        PolicyEntry policy = new PolicyEntry();
        policy.setPrioritizedMessages(option("priority", 0) == 1);
        PolicyMap map = new PolicyMap();
        map.setDefaultEntry(policy);
        broker.setDestinationPolicy(map);
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.start();
        broker.waitUntilStarted();
    }

    private static PersistenceAdapter kaha(File directory) throws Exception {
        PersistenceAdapter store = adapter("org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter", directory);
        set(store, "setJournalMaxFileLength", int.class, option("file", 65536));
        set(store, "setCheckpointInterval", long.class, (long) option("checkpoint", 500));
        set(store, "setCleanupInterval", long.class, (long) option("cleanup", 1000));
        return store;
    }

    private static PersistenceAdapter amq(File directory) throws Exception {
        PersistenceAdapter store = adapter("org.apache.activemq.store.amq.AMQPersistenceAdapter", directory);
        set(store, "setMaxFileLength", int.class, option("file", 65536));
        set(store, "setCleanupInterval", long.class, (long) option("cleanup", 1000));
        return store;
    }

    /** Not all releases have both. */
    private static PersistenceAdapter adapter(String name, File directory) throws Exception {
        PersistenceAdapter store = (PersistenceAdapter) Class.forName(name).getDeclaredConstructor().newInstance();
        store.setDirectory(directory);
        return store;
    }

    private static void set(Object of, String method, Class<?> type, Object value) throws Exception {
        of.getClass().getMethod(method, type).invoke(of, value);
    }

    private static Connection connect(String client, boolean compressed) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        factory.setUseCompression(compressed);
        factory.setAlwaysSyncSend(true);
        factory.setWatchTopicAdvisories(false);
        factory.getPrefetchPolicy().setAll(1);
        if (options.containsKey("trust")) {
            ActiveMQConnectionFactory.class.getMethod("setTrustAllPackages", boolean.class).invoke(factory, true);
        }
        Connection connection = factory.createConnection();
        if (client != null) {
            connection.setClientID(client);
        }
        connection.start();
        return connection;
    }

    private static Destination to(String name) {
        return ActiveMQDestination.createDestination(name, ActiveMQDestination.QUEUE_TYPE);
    }

    private interface Make {
        Message message(Session session, int i) throws Exception;
    }

    private static void send(String to, int count, Make make) throws Exception {
        send(to, count, make, false);
    }

    private static void send(String to, int count, Make make, boolean compressed) throws Exception {
        Connection connection = connect(null, compressed);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(to(to));
        for (int i = 0; i < count; i++) {
            Message message = make.message(session, i);
            int priority = message.propertyExists("sendPriority") ? message.getIntProperty("sendPriority") : 4;
            long life = message.propertyExists("sendLife") ? message.getLongProperty("sendLife") : 0;
            producer.send(message, DeliveryMode.PERSISTENT, priority, life);
        }
        connection.close();
    }

    private static void take(String from, int count) throws Exception {
        Connection connection = connect(null, false);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(to(from));
        for (int i = 0; i < count; i++) {
            if (consumer.receive(5000) == null) {
                throw new IllegalStateException("nothing in " + from);
            }
        }
        connection.close();
    }

    private static void subscribe(String client, String name, String topic, String selector, int count)
            throws Exception {
        Connection connection = connect(client, false);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createDurableSubscriber((Topic) to("topic://" + topic), name, selector, false);
        for (int i = 0; i < count; i++) {
            if (consumer.receive(5000) == null) {
                throw new IllegalStateException("nothing for " + name);
            }
        }
        connection.close();
    }

    private static Message text(Session session, int i) throws Exception {
        Message message = session.createTextMessage("text " + i);
        message.setIntProperty("n", i);
        message.setBooleanProperty("odd", i % 2 == 1);
        return message;
    }

    private static void types() throws Exception {
        send("types", 2, (s, i) -> {
            Message m = s.createTextMessage(i == 0 ? "t\u00e9xt \u4e16\u754c \ud83d\ude80 \u0000" : null);
            m.setBooleanProperty("pBool", true);
            m.setByteProperty("pByte", (byte) -7);
            m.setShortProperty("pShort", (short) -300);
            m.setIntProperty("pInt", -70000);
            m.setLongProperty("pLong", -5000000000L);
            m.setFloatProperty("pFloat", 1.25f);
            m.setDoubleProperty("pDouble", -1e-12);
            m.setStringProperty("pString", "pr\u00f6p \u20ac");
            m.setJMSCorrelationID("corr-" + i);
            m.setJMSType("kind");
            m.setJMSReplyTo(to(i == 0 ? "queue://replies" : "topic://replies.all"));
            m.setStringProperty("JMSXGroupID", "grp");
            m.setIntProperty("JMSXGroupSeq", i + 1);
            return m;
        });
        send("types", 1, (s, i) -> {
            BytesMessage m = s.createBytesMessage();
            m.writeBytes(new byte[] {0, 1, 2, -1, -128});
            m.writeUTF("utf");
            return m;
        });
        send("types", 1, (s, i) -> map(s));
        send("types", 1, (s, i) -> {
            StreamMessage m = s.createStreamMessage();
            m.writeBoolean(true);
            m.writeByte((byte) 1);
            m.writeShort((short) 2);
            m.writeChar('c');
            m.writeInt(3);
            m.writeLong(4L);
            m.writeFloat(5.5f);
            m.writeDouble(6.5);
            m.writeString("seven");
            m.writeBytes(new byte[] {8, 9});
            return m;
        });
        send("types", 1, (s, i) -> s.createObjectMessage("java object"));
        send("types", 1, (s, i) -> s.createMessage());
        send("types", 2, (s, i) -> i == 0 ? s.createTextMessage(long_text(3000)) : map(s), true);
        // The bytes messages of 5.4 cannot be compressed on a Java of today.
        send("types", option("zip", 1), (s, i) -> {
            BytesMessage m = s.createBytesMessage();
            m.writeBytes(new byte[3000]);
            return m;
        }, true);
        send("types", 1, (s, i) -> {
            Message m = text(s, i);
            m.setLongProperty("sendLife", 1000L * 3600 * 24 * 365 * 30);
            return m;
        });
    }

    private static Message map(Session s) throws Exception {
        MapMessage m = s.createMapMessage();
        m.setString("text", "va\u0142ue");
        m.setInt("int", 5);
        m.setDouble("double", 2.5);
        m.setBytes("bytes", new byte[] {1, 2, 3});
        m.setBoolean("yes", true);
        m.setChar("char", '\u20ac');
        return m;
    }

    private static String long_text(int words) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < words; i++) {
            text.append("word-").append(i).append(' ');
        }
        return text.toString();
    }

    private static void make() throws Exception {
        types();
        send("orders", 60, KahaBroker::text);
        take("orders", 17);
        subscribe("alice", "all", "news", null, 0);
        subscribe("bob", "odd", "news", "odd = TRUE", 0);
        subscribe("carol", "gone", "news", null, 0);
        subscribe("dan.x", "wild", "news.>", null, 0);
        send("topic://news", 10, KahaBroker::text);
        send("topic://news.sport", 3, KahaBroker::text);
        subscribe("alice", "all", "news", null, 4);
        subscribe("bob", "odd", "news", "odd = TRUE", 1);
        Connection carol = connect("carol", false);
        carol.createSession(false, Session.AUTO_ACKNOWLEDGE).unsubscribe("gone");
        carol.close();
        subscribe("dave", "late", "news", null, 0);
        send("topic://news", 2, KahaBroker::text);
        send("topic://nobody", 2, KahaBroker::text);
        send("large", 6, (s, i) -> s.createTextMessage(long_text(i * 2000 + 5000)));
        take("large", 2);
        transactions();
        send("drained", 200, (s, i) -> s.createTextMessage(long_text(300) + i));
        take("drained", 200);
        send("deleted", 5, KahaBroker::text);
        broker.getRegionBroker(); // the destination is known by now
        Connection connection = connect(null, false);
        ((ActiveMQConnection) connection).destroyDestination((ActiveMQDestination) to("deleted"));
        connection.close();
        send("priorities", 9, (s, i) -> {
            Message m = text(s, i);
            m.setIntProperty("sendPriority", i * 4 % 10);
            return m;
        });
        redelivered();
        Thread.sleep(option("pause", 3000));
        send("orders", 3, KahaBroker::text);
    }

    private static void redelivered() throws Exception {
        Connection connection = connect(null, false);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(to("orders"));
        consumer.receive(5000);
        session.rollback();
        connection.close();
    }

    private static void transactions() throws Exception {
        Connection connection = connect(null, false);
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(to("tx"));
        for (int i = 0; i < 5; i++) {
            producer.send(text(session, i));
        }
        session.commit();
        for (int i = 10; i < 13; i++) {
            producer.send(text(session, i));
        }
        session.rollback();
        connection.close();
        xa("committed", 2, "commit");
        xa("onephase", 1, "one");
        xa("rolledback", 2, "rollback");
        xa("left", 2, "left");
    }

    private static void xa(String name, int count, String end) throws Exception {
        ActiveMQXAConnection connection =
            (ActiveMQXAConnection) new ActiveMQXAConnectionFactory(url).createXAConnection();
        connection.start();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        Xid xid = new Id(name);
        resource.start(xid, XAResource.TMNOFLAGS);
        MessageProducer producer = session.createProducer(to("tx"));
        for (int i = 0; i < count; i++) {
            producer.send(session.createTextMessage(name + " " + i));
        }
        if (end.equals("left")) {
            MessageConsumer consumer = session.createConsumer(to("orders"));
            if (consumer.receive(5000) == null) {
                throw new IllegalStateException("nothing in orders");
            }
        }
        resource.end(xid, XAResource.TMSUCCESS);
        if (end.equals("one")) {
            resource.commit(xid, true);
            connection.close();
            return;
        }
        resource.prepare(xid);
        if (end.equals("commit")) {
            resource.commit(xid, false);
        } else if (end.equals("rollback")) {
            resource.rollback(xid);
        }
        if (!end.equals("left")) {
            connection.close();
        }
    }

    private static final class Id implements Xid {
        private final String name;

        Id(String name) {
            this.name = name;
        }

        @Override
        public int getFormatId() {
            return 77;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return ("gt-" + name).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public byte[] getBranchQualifier() {
            return "b1".getBytes(StandardCharsets.UTF_8);
        }
    }

    // -- what is delivered ---------------------------------------------------------------------------------

    private static void drain() throws Exception {
        StringBuilder out = new StringBuilder("{\"queues\":{");
        List<ActiveMQDestination> all =
            new ArrayList<>(broker.getPersistenceAdapter().getDestinations());
        Collections.sort(all);
        String comma = "";
        for (ActiveMQDestination one : all) {
            if (one.isQueue()) {
                Connection connection = connect(null, false);
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                out.append(comma).append(quoted(one.getPhysicalName())).append(':');
                consume(session.createConsumer(one), out);
                comma = ",";
                connection.close();
            }
        }
        out.append("},\"subscriptions\":{");
        comma = "";
        for (ActiveMQDestination one : all) {
            if (one.isTopic()) {
                comma = subscriptions(one, out, comma);
            }
        }
        for (String one : options.getOrDefault("reattach", "").split(",")) {
            String[] named = one.split(":", -1);
            if (named.length == 4 && !seen.containsKey(named[0] + ":" + named[1])) {
                String selector = named[3].isEmpty() ? null : named[3];
                comma = subscription(named[0], named[1], named[2], selector, out, comma);
            }
        }
        out.append("},\"prepared_transactions\":[");
        comma = "";
        ActiveMQXAConnection connection =
            (ActiveMQXAConnection) new ActiveMQXAConnectionFactory(url).createXAConnection();
        XAResource resource = connection.createXASession().getXAResource();
        for (Xid xid : resource.recover(XAResource.TMSTARTRSCAN)) {
            out.append(comma).append("{\"format\":").append(xid.getFormatId()).append(",\"gtrid\":")
                .append(quoted(new String(xid.getGlobalTransactionId(), StandardCharsets.UTF_8)))
                .append(",\"bqual\":")
                .append(quoted(new String(xid.getBranchQualifier(), StandardCharsets.UTF_8))).append('}');
            comma = ",";
        }
        connection.close();
        System.out.write((out.append("]}").toString()).getBytes(StandardCharsets.UTF_8));
        System.out.println();
        System.out.flush();
    }

    private static void take(String[] args) throws Exception {
        StringBuilder out = new StringBuilder("{");
        String comma = "";
        for (int i = 2; i < args.length; i++) {
            boolean isQueue = args[i].startsWith("queue://");
            Connection connection = connect(isQueue ? null : args[i], false);
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            out.append(comma).append(quoted(isQueue ? args[i] : args[i] + ":" + args[i + 1])).append(':');
            if (isQueue) {
                consume(session.createConsumer(to(args[i])), out);
            } else {
                String selector = args[i + 3].isEmpty() ? null : args[i + 3];
                Topic topic = (Topic) to("topic://" + args[i + 2]);
                consume(session.createDurableSubscriber(topic, args[i + 1], selector, false), out);
                i += 3;
            }
            comma = ",";
            connection.close();
        }
        System.out.write(out.append('}').toString().getBytes(StandardCharsets.UTF_8));
        System.out.println();
        System.out.flush();
    }

    private static final Map<String, String> seen = new LinkedHashMap<>();

    private static String subscriptions(ActiveMQDestination topic, StringBuilder out, String comma)
            throws Exception {
        org.apache.activemq.store.TopicMessageStore store =
            broker.getPersistenceAdapter().createTopicMessageStore((ActiveMQTopic) topic);
        for (org.apache.activemq.command.SubscriptionInfo one : store.getAllSubscriptions()) {
            String name = name(one);
            String asked = one.getSubscribedDestination().getPhysicalName();
            if (seen.put(one.getClientId() + ":" + name, asked) != null) {
                continue;
            }
            comma = subscription(one.getClientId(), name, asked, one.getSelector(), out, comma);
        }
        return comma;
    }

    private static String subscription(
            String client, String name, String topic, String selector, StringBuilder out, String comma)
            throws Exception {
        Connection connection = connect(client, false);
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        out.append(comma).append(quoted(client + ":" + name)).append(":{\"client_id\":")
            .append(quoted(client)).append(",\"name\":").append(quoted(name))
            .append(",\"topic\":").append(quoted(topic)).append(",\"selector\":")
            .append(quoted(selector)).append(",\"messages\":");
        consume(session.createDurableSubscriber((Topic) to("topic://" + topic), name, selector, false), out);
        out.append('}');
        connection.close();
        return ",";
    }

    private static String name(org.apache.activemq.command.SubscriptionInfo one) throws Exception {
        for (String method : Arrays.asList("getSubscriptionName", "getSubcriptionName")) {
            try {
                return (String) one.getClass().getMethod(method).invoke(one);
            } catch (NoSuchMethodException tryTheOther) {
                continue;
            }
        }
        throw new IllegalStateException();
    }

    private static void consume(MessageConsumer consumer, StringBuilder out) throws Exception {
        out.append('[');
        String comma = "";
        for (Message m = consumer.receive(1500); m != null; m = consumer.receive(700)) {
            out.append(comma);
            describe((ActiveMQMessage) m, out);
            comma = ",";
        }
        out.append(']');
    }

    private static void describe(ActiveMQMessage m, StringBuilder out) throws Exception {
        boolean compressed = m.isCompressed(); // reading the body inflates it
        String kind = "message";
        StringBuilder body = new StringBuilder();
        if (m instanceof TextMessage) {
            kind = "text";
            String text = ((TextMessage) m).getText();
            body.append(",\"body\":").append(quoted(text));
        } else if (m instanceof BytesMessage) {
            kind = "bytes";
            byte[] bytes = new byte[(int) ((BytesMessage) m).getBodyLength()];
            ((BytesMessage) m).readBytes(bytes);
            byte[] sha = MessageDigest.getInstance("SHA-256").digest(bytes);
            StringBuilder hex = new StringBuilder();
            for (byte one : sha) {
                hex.append(String.format("%02x", one));
            }
            body.append(",\"body_length\":").append(bytes.length).append(",\"body_sha256\":\"").append(hex).append('"');
        } else if (m instanceof MapMessage) {
            kind = "map";
            Map<String, Object> values = new LinkedHashMap<>();
            for (Enumeration<?> e = ((MapMessage) m).getMapNames(); e.hasMoreElements();) {
                String key = (String) e.nextElement();
                values.put(key, ((MapMessage) m).getObject(key));
            }
            body.append(",\"body_map\":");
            values(values, body, false);
            body.append(",\"body_map_types\":");
            values(values, body, true);
        } else if (m instanceof StreamMessage) {
            kind = "stream";
            body.append(",\"body_stream\":[");
            String comma = "";
            while (true) {
                try {
                    Object value = ((StreamMessage) m).readObject();
                    body.append(comma).append(value(value));
                    comma = ",";
                } catch (javax.jms.MessageEOFException end) {
                    break;
                }
            }
            body.append(']');
        } else if (m instanceof ObjectMessage) {
            kind = "object";
            org.apache.activemq.util.ByteSequence content = m.getContent();
            content = content == null ? new org.apache.activemq.util.ByteSequence(new byte[0]) : content;
            body.append(",\"body_base64\":").append(quoted(Base64.getEncoder().encodeToString(
                Arrays.copyOfRange(content.data, content.offset, content.offset + content.length))));
        }
        Map<String, Object> properties = new LinkedHashMap<>(m.getProperties());
        properties.remove("JMSXGroupFirstForConsumer");
        out.append("{\"id\":").append(quoted(m.getJMSMessageID())).append(",\"type\":").append(quoted(kind))
            .append(",\"durable\":").append(m.isPersistent()).append(",\"priority\":").append(m.getPriority())
            .append(",\"timestamp\":").append(m.getTimestamp()).append(",\"expiration\":").append(m.getExpiration())
            .append(",\"destination\":").append(quoted(m.getDestination().getQualifiedName()))
            .append(",\"correlation_id\":").append(quoted(m.getCorrelationId()))
            .append(",\"jms_type\":").append(quoted(m.getType())).append(",\"reply_to\":")
            .append(quoted(m.getReplyTo() == null ? null : m.getReplyTo().getQualifiedName()))
            .append(",\"group_id\":").append(quoted(m.getGroupID())).append(",\"group_sequence\":")
            .append(m.getGroupSequence()).append(",\"compressed\":").append(compressed)
            .append(",\"properties\":");
        values(properties, out, false);
        out.append(",\"property_types\":");
        values(properties, out, true);
        out.append(body).append('}');
    }

    private static void values(Map<String, Object> values, StringBuilder out, boolean types) {
        out.append('{');
        String comma = "";
        for (Map.Entry<String, Object> one : values.entrySet()) {
            out.append(comma).append(quoted(one.getKey())).append(':')
                .append(types ? quoted(type(one.getValue())) : value(one.getValue()));
            comma = ",";
        }
        out.append('}');
    }

    private static String type(Object value) {
        if (value instanceof byte[]) {
            return "bytes";
        }
        if (value instanceof Integer) {
            return "int";
        }
        if (value instanceof Character) {
            return "char";
        }
        if (value instanceof Number || value instanceof Boolean) {
            return value.getClass().getSimpleName().toLowerCase();
        }
        return "string";
    }

    private static String value(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        return quoted(value instanceof byte[] ? Base64.getEncoder().encodeToString((byte[]) value) : value.toString());
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one < ' ' || one == '"' || one == '\\' || Character.isSurrogate(one)) {
                out.append(String.format("\\u%04x", (int) one));
            } else {
                out.append(one);
            }
        }
        return out.append('"').toString();
    }
}

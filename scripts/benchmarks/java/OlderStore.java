package journalfs.benchmarks;

import java.io.File;
import java.lang.management.ManagementFactory;
import javax.jms.Connection;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

/** Fills a KahaDB store (fill DIR COUNT CHARACTERS clean|kill), or says how long its broker takes to start (start DIR). */
public final class OlderStore {
    private static final int IN_TRANSACTION = 1000;

    public static void main(String[] args) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("localhost");
        broker.setUseJmx(false);
        broker.setUseShutdownHook(false);
        broker.setAdvisorySupport(false);
        KahaDBPersistenceAdapter kaha = new KahaDBPersistenceAdapter();
        kaha.setDirectory(new File(args[1]));
        broker.setPersistenceAdapter(kaha);
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 40);
        broker.start();
        broker.waitUntilStarted();
        if (args[0].equals("fill")) {
            fill(Integer.parseInt(args[2]), Integer.parseInt(args[3]));
            if (args[4].equals("kill")) {
                Runtime.getRuntime().halt(0);
            }
        } else {
            long began = ManagementFactory.getRuntimeMXBean().getStartTime();
            System.out.println("started " + (System.currentTimeMillis() - began));
        }
        broker.stop();
        broker.waitUntilStopped();
        System.exit(0);
    }

    private static void fill(int count, int characters) throws Exception {
        Connection connection = new ActiveMQConnectionFactory("vm://localhost?create=false").createConnection();
        connection.start();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue("orders"));
        for (int i = 0; i < count; i++) {
            TextMessage message = session.createTextMessage(text(i, characters));
            message.setIntProperty("n", i);
            message.setStringProperty("region", i % 2 == 0 ? "north" : "south");
            producer.send(message);
            if (i % IN_TRANSACTION == IN_TRANSACTION - 1) {
                session.commit();
            }
        }
        session.commit();
        connection.close();
    }

    private static String text(int number, int characters) {
        StringBuilder text = new StringBuilder("order " + number + " ");
        while (text.length() < characters) {
            text.append("item ").append(number * 31L + text.length()).append(' ');
        }
        return text.substring(0, characters);
    }
}

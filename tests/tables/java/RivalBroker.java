import java.util.concurrent.CountDownLatch;
import org.apache.activemq.artemis.api.core.Message;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.api.core.client.ActiveMQClient;
import org.apache.activemq.artemis.api.core.client.ClientMessage;
import org.apache.activemq.artemis.api.core.client.ClientProducer;
import org.apache.activemq.artemis.api.core.client.ClientSession;
import org.apache.activemq.artemis.api.core.client.ClientSessionFactory;
import org.apache.activemq.artemis.api.core.client.ServerLocator;
import org.apache.activemq.artemis.core.server.ActiveMQServer;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;

/**
 * A broker, started over and over within one process: CONFIG NAME. While it has the store it sends messages
 * `NAME.LIFE NUMBER`, and prints each that its journal has.
 */
public final class RivalBroker {

   public static void main(String[] arguments) throws Exception {
      for (int life = 0; ; life++) {
         EmbeddedActiveMQ broker = new EmbeddedActiveMQ().setConfigResourcePath("file://" + arguments[0]);
         try {
            broker.createActiveMQServer();
            live(broker, arguments[1] + "." + life);
         } catch (Exception error) {
            System.err.println(error);
         } finally {
            stop(broker);
         }
      }
   }

   private static void live(EmbeddedActiveMQ broker, String name) throws Exception {
      ActiveMQServer server = broker.getActiveMQServer();
      CountDownLatch failed = new CountDownLatch(1);
      server.registerActivationFailureListener(error -> failed.countDown());
      broker.start();
      while (!server.isActive()) {
         if (failed.getCount() == 0 || !server.isStarted()) {
            return;
         }
         Thread.sleep(5);
      }
      try (ServerLocator locator = ActiveMQClient.createServerLocator("vm://0");
           ClientSessionFactory factory = locator.setBlockOnDurableSend(true).setCallTimeout(3000)
              .setReconnectAttempts(0).createSessionFactory();
           ClientSession session = factory.createSession(true, true);
           ClientProducer producer = session.createProducer("orders")) {
         for (long number = 0; server.isStarted(); number++) {
            ClientMessage message = session.createMessage(Message.TEXT_TYPE, true);
            String text = name + " " + number;
            message.getBodyBuffer().writeNullableSimpleString(SimpleString.of(text));
            producer.send(message);
            System.out.println(text);
         }
      }
   }

   private static void stop(EmbeddedActiveMQ broker) {
      try {
         broker.stop();
      } catch (Exception error) {
         System.err.println(error);
      }
   }
}

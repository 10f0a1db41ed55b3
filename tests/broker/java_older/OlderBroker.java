package journalfs.tests;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.TreeMap;

import org.apache.activemq.artemis.api.core.ActiveMQBuffer;
import org.apache.activemq.artemis.api.core.Message;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.api.core.TransportConfiguration;
import org.apache.activemq.artemis.api.core.client.ActiveMQClient;
import org.apache.activemq.artemis.api.core.client.ClientConsumer;
import org.apache.activemq.artemis.api.core.client.ClientMessage;
import org.apache.activemq.artemis.api.core.client.ClientProducer;
import org.apache.activemq.artemis.api.core.client.ClientSession;
import org.apache.activemq.artemis.api.core.client.ClientSessionFactory;
import org.apache.activemq.artemis.api.core.client.ServerLocator;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.remoting.impl.invm.InVMAcceptorFactory;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;

/**
 * A broker of an older release and its client in one process: {@code OlderBroker DATA TYPE FILE_BYTES WORD QUEUE COUNT ...}.
 * It starts on a store, takes COUNT messages of each QUEUE and prints a line for each, sends one message to the address
 * of each (its body: WORD), and stops. Only what all releases since 2.6 have is used.
 */
public final class OlderBroker {
   private static final long RECEIVE_MS_MAX = 10_000;

   private OlderBroker() {
   }

   public static void main(String[] args) throws Exception {
      PrintStream answers = new PrintStream(System.out, true, "UTF-8");
      System.setOut(System.err);
      EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
      broker.setConfiguration(configuration(new File(args[0]), args[1], Integer.parseInt(args[2])));
      broker.start();
      try (ServerLocator locator = ActiveMQClient.createServerLocator("vm://0")) {
         locator.setBlockOnDurableSend(true).setBlockOnAcknowledge(true).setMinLargeMessageSize(100 * 1024);
         try (ClientSessionFactory factory = locator.createSessionFactory();
              ClientSession session = factory.createSession(true, true, 0)) {
            session.start();
            for (int i = 4; i < args.length; i += 2) {
               take(session, args[i], Integer.parseInt(args[i + 1]), answers);
            }
            for (int i = 4; i < args.length; i += 2) {
               send(session, session.queueQuery(new SimpleString(args[i])).getAddress(), args[3]);
            }
         }
      } finally {
         broker.stop();
      }
      answers.println("done");
      // Everything is closed; idle threads of the connector in the process would live on for a minute.
      System.exit(0);
   }

   private static Configuration configuration(File data, String type, int fileBytes) throws Exception {
      ConfigurationImpl found = new ConfigurationImpl();
      found.setPersistenceEnabled(true).setSecurityEnabled(false).setJournalType(JournalType.valueOf(type));
      found.setJournalFileSize(fileBytes).setJournalMinFiles(2).setMaxDiskUsage(100);
      found.setBindingsDirectory(new File(data, "bindings").getPath());
      found.setJournalDirectory(new File(data, "journal").getPath());
      found.setLargeMessagesDirectory(new File(data, "large-messages").getPath());
      found.setPagingDirectory(new File(data, "paging").getPath());
      found.addAddressesSetting("#", new AddressSettings().setDeadLetterAddress(new SimpleString("DLQ"))
         .setExpiryAddress(new SimpleString("ExpiryQueue")));
      found.addAcceptorConfiguration(new TransportConfiguration(InVMAcceptorFactory.class.getName()));
      return found;
   }

   private static void take(ClientSession session, String queue, int count, PrintStream answers) throws Exception {
      try (ClientConsumer consumer = session.createConsumer(queue)) {
         for (int i = 0; i < count; i++) {
            ClientMessage message = consumer.receive(RECEIVE_MS_MAX);
            if (message == null) {
               throw new IllegalStateException(queue + ": message " + i + " did not come");
            }
            answers.println(queue + "\t" + described(message));
            message.individualAcknowledge();
         }
         if (consumer.receiveImmediate() != null) {
            throw new IllegalStateException(queue + ": there are more messages");
         }
      }
   }

   private static void send(ClientSession session, SimpleString address, String word) throws Exception {
      ClientMessage message = session.createMessage(Message.TEXT_TYPE, true);
      message.getBodyBuffer().writeNullableSimpleString(new SimpleString(word));
      try (ClientProducer producer = session.createProducer(address)) {
         producer.send(message);
      }
   }

   private static String described(ClientMessage message) throws Exception {
      byte[] body = body(message);
      StringBuilder hash = new StringBuilder();
      for (byte one : MessageDigest.getInstance("SHA-256").digest(body)) {
         hash.append(String.format("%02x", one));
      }
      return String.join("\t", Byte.toString(message.getType()), Boolean.toString(message.isDurable()),
         Byte.toString(message.getPriority()), Long.toString(message.getExpiration()),
         Integer.toString(message.getDeliveryCount()), Boolean.toString(message.isLargeMessage()),
         Integer.toString(body.length), hash, properties(message));
   }

   private static byte[] body(ClientMessage message) throws Exception {
      if (message.isLargeMessage()) {
         ByteArrayOutputStream whole = new ByteArrayOutputStream();
         message.saveToOutputStream(whole);
         return whole.toByteArray();
      }
      ActiveMQBuffer buffer = message.getBodyBuffer();
      byte[] body = new byte[buffer.readableBytes()];
      buffer.readBytes(body);
      return body;
   }

   /** {@code name:type:value,...}, names and values in base64. */
   private static String properties(ClientMessage message) {
      TreeMap<String, String> found = new TreeMap<>();
      for (SimpleString name : message.getPropertyNames()) {
         Object value = message.getObjectProperty(name);
         String type = value == null ? "null" : value instanceof SimpleString ? "string" : value instanceof byte[] ? "bytes"
            : value.getClass().getSimpleName().toLowerCase().replace("integer", "int").replace("character", "char");
         found.put(name.toString(), encoded(name.toString()) + ":" + type + ":" + encoded(text(value)));
      }
      return String.join(",", found.values());
   }

   private static String encoded(String text) {
      return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
   }

   private static String text(Object value) {
      if (value instanceof byte[]) {
         return Base64.getEncoder().encodeToString((byte[]) value);
      } else if (value instanceof Float) {
         return Integer.toHexString(Float.floatToRawIntBits((Float) value));
      } else if (value instanceof Double) {
         return Long.toHexString(Double.doubleToRawLongBits((Double) value));
      }
      return String.valueOf(value);
   }
}

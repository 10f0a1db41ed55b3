package journalfs.tests;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.TreeMap;

import org.hornetq.api.core.HornetQBuffer;
import org.hornetq.api.core.Message;
import org.hornetq.api.core.SimpleString;
import org.hornetq.api.core.TransportConfiguration;
import org.hornetq.api.core.client.ClientConsumer;
import org.hornetq.api.core.client.ClientMessage;
import org.hornetq.api.core.client.ClientProducer;
import org.hornetq.api.core.client.ClientSession;
import org.hornetq.api.core.client.ClientSessionFactory;
import org.hornetq.api.core.client.HornetQClient;
import org.hornetq.api.core.client.ServerLocator;
import org.hornetq.core.config.Configuration;
import org.hornetq.core.config.impl.ConfigurationImpl;
import org.hornetq.core.remoting.impl.invm.InVMAcceptorFactory;
import org.hornetq.core.remoting.impl.invm.InVMConnectorFactory;
import org.hornetq.core.server.HornetQServer;
import org.hornetq.core.server.HornetQServers;
import org.hornetq.core.server.JournalType;
import org.hornetq.core.settings.impl.AddressFullMessagePolicy;
import org.hornetq.core.settings.impl.AddressSettings;

/**
 * HornetQ and its client in one process: {@code HornetqBroker DATA FILE_BYTES QUEUE COUNT ...}. It starts on a store,
 * takes COUNT messages of each QUEUE, prints a line for each, says how many transactions are prepared, and stops.
 * With a COUNT such as +3 it sends so many to the queue's address instead.
 */
public final class HornetqBroker {
   private static final long RECEIVE_MS_MAX = 10_000;

   private HornetqBroker() {
   }

   public static void main(String[] args) throws Exception {
      PrintStream answers = new PrintStream(System.out, true, "UTF-8");
      System.setOut(System.err);
      HornetQServer broker = HornetQServers.newHornetQServer(configuration(new File(args[0]), Integer.parseInt(args[1])));
      broker.start();
      answers.println("prepared\t" + broker.getResourceManager().getPreparedTransactions().size());
      try (ServerLocator locator = HornetQClient.createServerLocatorWithoutHA(
            new TransportConfiguration(InVMConnectorFactory.class.getName()));
           ClientSessionFactory factory = locator.createSessionFactory();
           ClientSession session = factory.createSession(true, true, 0)) {
         session.start();
         for (int i = 2; i < args.length; i += 2) {
            int count = Integer.parseInt(args[i + 1]);
            if (args[i + 1].startsWith("+")) {
               send(session, session.queueQuery(new SimpleString(args[i])).getAddress(), count);
            } else {
               take(session, args[i], count, answers);
            }
         }
      } finally {
         broker.stop();
      }
      answers.println("done");
      System.exit(0);
   }

   private static Configuration configuration(File data, int fileBytes) {
      ConfigurationImpl found = new ConfigurationImpl();
      found.setPersistenceEnabled(true);
      found.setSecurityEnabled(false);
      found.setJMXManagementEnabled(false);
      found.setClusterPassword("of a test");
      found.setJournalType(JournalType.NIO);
      found.setJournalFileSize(fileBytes);
      found.setJournalMinFiles(2);
      found.setBindingsDirectory(new File(data, "bindings").getPath());
      found.setJournalDirectory(new File(data, "journal").getPath());
      found.setLargeMessagesDirectory(new File(data, "largemessages").getPath());
      found.setPagingDirectory(new File(data, "paging").getPath());
      AddressSettings settings = new AddressSettings();
      settings.setDeadLetterAddress(new SimpleString("jms.queue.DLQ"));
      settings.setExpiryAddress(new SimpleString("jms.queue.ExpiryQueue"));
      // Nothing of a page is given where an address is not told to page.
      settings.setAddressFullMessagePolicy(AddressFullMessagePolicy.PAGE);
      settings.setMaxSizeBytes(20 << 20);
      found.getAddressesSettings().put("#", settings);
      found.getAcceptorConfigurations().add(new TransportConfiguration(InVMAcceptorFactory.class.getName()));
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
            message.acknowledge();
         }
         if (consumer.receiveImmediate() != null) {
            throw new IllegalStateException(queue + ": there are more messages");
         }
      }
   }

   private static void send(ClientSession session, SimpleString address, int count) throws Exception {
      try (ClientProducer producer = session.createProducer(address)) {
         for (int i = 0; i < count; i++) {
            ClientMessage message = session.createMessage(Message.TEXT_TYPE, true);
            message.getBodyBuffer().writeNullableSimpleString(new SimpleString("sent " + i));
            producer.send(message);
         }
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
      HornetQBuffer buffer = message.getBodyBuffer();
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

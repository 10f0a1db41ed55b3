package journalfs.tests;

import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Map;

import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.Topic;

import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;
import org.apache.activemq.artemis.json.JsonObject;
import org.apache.activemq.artemis.json.JsonObjectBuilder;
import org.apache.activemq.artemis.json.JsonValue;

/** What only a JMS client leaves: messages of the JMS types and durable subscriptions. */
final class JmsCommands implements AutoCloseable {
   private final ActiveMQConnectionFactory factory;
   private Connection connection;
   private Session session;

   JmsCommands(String url) throws Exception {
      factory = new ActiveMQConnectionFactory(url);
   }

   void run(String verb, JsonObject command, JsonObjectBuilder answer) throws Exception {
      if (connection == null) {
         connection = factory.createConnection();
         connection.setClientID("journalfs-tests");
         session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
         connection.start();
      }
      switch (verb) {
         case "jms-send" -> answer.add("jms_id", send(command));
         case "jms-subscribe" -> {
            Topic topic = session.createTopic(command.getString("topic"));
            session.createDurableConsumer(topic, command.getString("name")).close();
         }
         default -> throw new IllegalArgumentException("no command " + verb);
      }
   }

   private String send(JsonObject command) throws Exception {
      Message message = message(command);
      for (Map.Entry<String, JsonValue> property : properties(command).entrySet()) {
         message.setObjectProperty(property.getKey(), CoreCommands.plain(property.getValue()));
      }
      message.setJMSCorrelationID(command.getString("correlation_id", null));
      message.setJMSType(command.getString("jms_type", null));
      boolean topic = command.containsKey("topic");
      try (MessageProducer producer = session.createProducer(
         topic ? session.createTopic(command.getString("topic")) : session.createQueue(command.getString("queue")))) {
         int mode = command.getBoolean("durable", true) ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT;
         producer.send(message, mode, command.getInt("priority", 4), 0);
      }
      return message.getJMSMessageID();
   }

   private static JsonObject properties(JsonObject command) {
      return command.containsKey("properties") ? command.getJsonObject("properties") : JsonValue.EMPTY_JSON_OBJECT;
   }

   private Message message(JsonObject command) throws Exception {
      switch (command.getString("type")) {
         case "text":
            return session.createTextMessage(command.getString("body", null));
         case "bytes":
            BytesMessage bytes = session.createBytesMessage();
            bytes.writeBytes(Base64.getDecoder().decode(command.getString("body")));
            return bytes;
         case "large-bytes":
            BytesMessage large = session.createBytesMessage();
            byte[] body = new byte[command.getInt("length")];
            for (int i = 0; i < body.length; i++) {
               body[i] = (byte) (i * 31 + i / 251);
            }
            large.setObjectProperty("JMS_AMQ_InputStream", new ByteArrayInputStream(body));
            return large;
         case "map":
            MapMessage map = session.createMapMessage();
            for (Map.Entry<String, JsonValue> entry : command.getJsonObject("body").entrySet()) {
               map.setObject(entry.getKey(), CoreCommands.plain(entry.getValue()));
            }
            return map;
         case "stream":
            StreamMessage stream = session.createStreamMessage();
            for (JsonValue value : command.getJsonArray("body")) {
               stream.writeObject(CoreCommands.plain(value));
            }
            return stream;
         case "object":
            ArrayList<Object> list = new ArrayList<>();
            for (JsonValue value : command.getJsonArray("body")) {
               list.add(CoreCommands.plain(value));
            }
            return session.createObjectMessage(list);
         default:
            throw new IllegalArgumentException("no message type " + command.getString("type"));
      }
   }

   @Override
   public void close() throws Exception {
      if (connection != null) {
         connection.close();
      }
      factory.close();
   }
}

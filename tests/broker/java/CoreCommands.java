package journalfs.tests;

import java.util.Base64;
import java.util.Map;

import org.apache.activemq.artemis.api.core.Message;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.api.core.client.ClientConsumer;
import org.apache.activemq.artemis.api.core.client.ClientMessage;
import org.apache.activemq.artemis.api.core.client.ClientProducer;
import org.apache.activemq.artemis.api.core.client.ClientRequestor;
import org.apache.activemq.artemis.api.core.client.ClientSession;
import org.apache.activemq.artemis.api.core.management.ManagementHelper;
import org.apache.activemq.artemis.json.JsonArrayBuilder;
import org.apache.activemq.artemis.json.JsonNumber;
import org.apache.activemq.artemis.json.JsonObject;
import org.apache.activemq.artemis.json.JsonObjectBuilder;
import org.apache.activemq.artemis.json.JsonString;
import org.apache.activemq.artemis.json.JsonValue;
import org.apache.activemq.artemis.utils.JsonLoader;

/** Commands of the core client: queues, sends, acknowledgements, local transactions, management. */
final class CoreCommands {
   /** A message that should be there arrives within this time, or the command fails. */
   private static final long RECEIVE_MS_MAX = 10_000;

   private final Sessions sessions;

   CoreCommands(Sessions sessions) {
      this.sessions = sessions;
   }

   void run(String verb, JsonObject command, JsonObjectBuilder answer) throws Exception {
      switch (verb) {
         case "queue" -> createQueue(command);
         case "delete-queue" -> sessions.automatic().deleteQueue(command.getString("queue"));
         case "send" -> send(command, answer);
         case "consume" -> consume(command, answer);
         case "compete" -> compete(command, answer);
         case "browse" -> browse(command, answer);
         case "begin" -> sessions.begin(command.getString("session"), false);
         case "commit" -> sessions.named(command.getString("session")).commit();
         case "rollback" -> sessions.named(command.getString("session")).rollback();
         case "end" -> sessions.end(command.getString("session"));
         case "manage" -> manage(command, answer);
         default -> throw new IllegalArgumentException("no command " + verb);
      }
   }

   private void createQueue(JsonObject command) throws Exception {
      RoutingType routing = RoutingType.valueOf(command.getString("routing", "ANYCAST"));
      QueueConfiguration queue = QueueConfiguration.of(command.getString("queue"))
         .setAddress(command.getString("address", command.getString("queue"))).setRoutingType(routing).setDurable(true);
      if (command.containsKey("filter")) {
         queue.setFilterString(command.getString("filter"));
      }
      if (command.containsKey("last_value_key")) {
         queue.setLastValueKey(command.getString("last_value_key"));
      }
      sessions.automatic().createQueue(queue);
   }

   private void send(JsonObject command, JsonObjectBuilder answer) throws Exception {
      ClientSession session = sessions.named(command.getString("session", ""));
      int first = command.getInt("first", 0);
      int count = command.getInt("count", 1);
      try (ClientProducer producer = session.createProducer(command.getString("address"))) {
         for (int n = first; n < first + count; n++) {
            producer.send(message(session, command, n));
         }
      }
      answer.add("sent", count);
   }

   private ClientMessage message(ClientSession session, JsonObject command, int n) {
      boolean text = command.getString("type", "text").equals("text");
      byte type = text ? Message.TEXT_TYPE : Message.BYTES_TYPE;
      ClientMessage message = session.createMessage(type, command.getBoolean("durable", true));
      String body = padded(command.getString("body", "message {n}").replace("{n}", Integer.toString(n)),
         command.getInt("length", 0));
      if (text) {
         message.getBodyBuffer().writeNullableSimpleString(SimpleString.of(body));
      } else {
         message.getBodyBuffer().writeBytes(Base64.getDecoder().decode(body));
      }
      message.putIntProperty("n", n);
      message.setPriority((byte) command.getInt("priority", 4));
      long now = System.currentTimeMillis();
      if (command.containsKey("expires_in_ms")) {
         message.setExpiration(now + number(command, "expires_in_ms"));
      }
      if (command.containsKey("expires_at_ms")) {
         message.setExpiration(number(command, "expires_at_ms"));
      }
      if (command.containsKey("scheduled_in_ms")) {
         message.putLongProperty(Message.HDR_SCHEDULED_DELIVERY_TIME, now + number(command, "scheduled_in_ms"));
      }
      if (command.containsKey("duplicate_id")) {
         message.putStringProperty(Message.HDR_DUPLICATE_DETECTION_ID, SimpleString.of(command.getString("duplicate_id")));
      }
      if (command.containsKey("properties")) {
         for (Map.Entry<String, JsonValue> property : command.getJsonObject("properties").entrySet()) {
            message.putObjectProperty(property.getKey(), plain(property.getValue()));
         }
      }
      return message;
   }

   /** The body, made longer to {@code length} characters; the filling differs along the way, so that a shift shows. */
   private static String padded(String body, int length) {
      StringBuilder padded = new StringBuilder(body);
      while (padded.length() < length) {
         padded.append(' ').append(padded.length());
      }
      if (length > body.length()) {
         padded.setLength(length);
      }
      return padded.toString();
   }

   private void consume(JsonObject command, JsonObjectBuilder answer) throws Exception {
      ClientSession session = sessions.named(command.getString("session", ""));
      String filter = command.getString("filter", null);
      try (ClientConsumer consumer = session.createConsumer(command.getString("queue"), filter)) {
         answer.add("taken", taken(consumer, command.getInt("count", 1)));
      }
   }

   /** Two consumers at once; when the first has what it wants, and the second was asked in vain, the first goes. */
   private void compete(JsonObject command, JsonObjectBuilder answer) throws Exception {
      String queue = command.getString("queue");
      try (ClientConsumer first = sessions.automatic().createConsumer(queue);
           ClientConsumer second = sessions.automatic().createConsumer(queue)) {
         answer.add("first", taken(first, command.getInt("count")));
         if (second.receiveImmediate() != null) {
            throw new IllegalStateException("the second consumer got a message beside the first");
         }
         first.close();
         answer.add("second", taken(second, 1));
      }
   }

   private static JsonArrayBuilder taken(ClientConsumer consumer, int count) throws Exception {
      JsonArrayBuilder taken = JsonLoader.createArrayBuilder();
      for (int i = 0; i < count; i++) {
         ClientMessage message = consumer.receive(RECEIVE_MS_MAX);
         if (message == null) {
            throw new IllegalStateException("message " + i + " did not come");
         }
         message.individualAcknowledge();
         taken.add(message.getMessageID());
      }
      return taken;
   }

   private void browse(JsonObject command, JsonObjectBuilder answer) throws Exception {
      JsonArrayBuilder found = JsonLoader.createArrayBuilder();
      try (ClientConsumer browser = sessions.automatic().createConsumer(command.getString("queue"), true)) {
         for (ClientMessage message = browser.receiveImmediate(); message != null; message = browser.receiveImmediate()) {
            JsonObjectBuilder entry = JsonLoader.createObjectBuilder().add("id", message.getMessageID())
               .add("priority", message.getPriority()).add("deliveryCount", message.getDeliveryCount());
            // The body of a large message comes on its own stream, and nobody asks for it here.
            if (message.getType() == Message.TEXT_TYPE && !message.isLargeMessage()) {
               entry.add("body", String.valueOf(message.getReadOnlyBodyBuffer().readNullableSimpleString()));
            }
            found.add(entry);
         }
      }
      answer.add("messages", found);
   }

   private void manage(JsonObject command, JsonObjectBuilder answer) throws Exception {
      ClientSession session = sessions.automatic();
      try (ClientRequestor requestor = new ClientRequestor(session, "activemq.management")) {
         ClientMessage request = session.createMessage(false);
         String resource = command.getString("resource");
         if (command.containsKey("attribute")) {
            ManagementHelper.putAttribute(request, resource, command.getString("attribute"));
         } else {
            Object[] arguments = command.getJsonArray("arguments").stream().map(CoreCommands::plain).toArray();
            ManagementHelper.putOperationInvocation(request, resource, command.getString("operation"), arguments);
         }
         ClientMessage reply = requestor.request(request, RECEIVE_MS_MAX);
         if (reply == null) {
            throw new IllegalStateException("management did not answer");
         }
         Object result = ManagementHelper.getResult(reply);
         if (!ManagementHelper.hasOperationSucceeded(reply)) {
            throw new IllegalStateException(String.valueOf(result));
         }
         answer.add("result", json(result));
      }
   }

   static long number(JsonObject command, String name) {
      return command.getJsonNumber(name).longValue();
   }

   static Object plain(JsonValue value) {
      return switch (value.getValueType()) {
         case STRING -> ((JsonString) value).getString();
         case TRUE -> Boolean.TRUE;
         case FALSE -> Boolean.FALSE;
         case NULL -> null;
         case NUMBER -> ((JsonNumber) value).isIntegral() ? (Object) ((JsonNumber) value).longValue()
            : (Object) ((JsonNumber) value).doubleValue();
         default -> throw new IllegalArgumentException("no plain value: " + value);
      };
   }

   private static JsonValue json(Object value) {
      JsonArrayBuilder one = JsonLoader.createArrayBuilder();
      if (value == null) {
         one.addNull();
      } else if (value instanceof Boolean flag) {
         one.add(flag.booleanValue());
      } else if (value instanceof Double || value instanceof Float) {
         one.add(((Number) value).doubleValue());
      } else if (value instanceof Number number) {
         one.add(number.longValue());
      } else if (value instanceof Object[] values) {
         JsonArrayBuilder list = JsonLoader.createArrayBuilder();
         for (Object entry : values) {
            list.add(json(entry));
         }
         one.add(list);
      } else {
         one.add(value.toString());
      }
      return one.build().get(0);
   }
}

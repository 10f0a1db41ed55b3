package journalfs.tests;

import java.io.ByteArrayOutputStream;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HexFormat;
import java.util.TreeMap;

import org.apache.activemq.artemis.api.core.ActiveMQBuffer;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.api.core.client.ClientConsumer;
import org.apache.activemq.artemis.api.core.client.ClientMessage;
import org.apache.activemq.artemis.api.core.client.ClientSession;
import org.apache.activemq.artemis.json.JsonArrayBuilder;
import org.apache.activemq.artemis.json.JsonObject;
import org.apache.activemq.artemis.json.JsonObjectBuilder;
import org.apache.activemq.artemis.utils.JsonLoader;

/**
 * Messages with everything that a client can see of them: {@code messages-browse} and {@code messages-take}, which
 * acknowledges them all in one transaction.
 *
 * <p>Values of properties are texts that tell all values apart: floats by their bits, bytes in base64, a lone surrogate
 * by its number.
 */
final class MessageCommands {
   private static final long RECEIVE_MS_MAX = 10_000;
   /** Bodies of more bytes are given by size and hash alone. */
   private static final int BODY_BYTES_MAX = 4096;

   private final Sessions sessions;

   MessageCommands(Sessions sessions) {
      this.sessions = sessions;
   }

   void run(String verb, JsonObject command, JsonObjectBuilder answer) throws Exception {
      switch (verb) {
         case "messages-browse" -> browse(command, answer);
         case "messages-take" -> take(command, answer);
         default -> throw new IllegalArgumentException("no command " + verb);
      }
   }

   /** All messages. Asked whether there is one more, a broker may say no while a large one is on its way; so
    * {@code count} messages are waited for. */
   private void browse(JsonObject command, JsonObjectBuilder answer) throws Exception {
      JsonArrayBuilder found = JsonLoader.createArrayBuilder();
      try (ClientConsumer browser = sessions.fetchingAhead().createConsumer(command.getString("queue"), true)) {
         ClientMessage message = null;
         for (int i = 0; i < command.getInt("count") && (i == 0 || message != null); i++) {
            message = browser.receive(RECEIVE_MS_MAX);
            if (message != null) {
               found.add(described(message));
            }
         }
         for (message = browser.receiveImmediate(); message != null; message = browser.receiveImmediate()) {
            found.add(described(message));
         }
      }
      answer.add("messages", found);
   }

   private void take(JsonObject command, JsonObjectBuilder answer) throws Exception {
      JsonArrayBuilder found = JsonLoader.createArrayBuilder();
      ClientSession session = sessions.begin("messages-take", false);
      try (ClientConsumer consumer = session.createConsumer(command.getString("queue"))) {
         for (int i = 0; i < command.getInt("count"); i++) {
            ClientMessage message = consumer.receive(RECEIVE_MS_MAX);
            if (message == null) {
               throw new IllegalStateException("message " + i + " did not come");
            }
            found.add(described(message));
            message.individualAcknowledge();
         }
         if (consumer.receiveImmediate() != null) {
            throw new IllegalStateException("there are more messages");
         }
         session.commit();
      } finally {
         sessions.end("messages-take");
      }
      answer.add("messages", found);
   }

   private static JsonObjectBuilder described(ClientMessage message) throws Exception {
      byte[] body = body(message);
      JsonObjectBuilder entry = JsonLoader.createObjectBuilder().add("id", message.getMessageID())
         .add("address", visible(String.valueOf(message.getAddress()))).add("type", message.getType())
         .add("durable", message.isDurable()).add("priority", message.getPriority())
         .add("timestamp", message.getTimestamp()).add("expiration", message.getExpiration())
         .add("deliveryCount", message.getDeliveryCount()).add("large", message.isLargeMessage())
         .add("userId", String.valueOf(message.getUserID())).add("properties", properties(message))
         .add("size", body.length)
         .add("sha256", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body)));
      if (body.length <= BODY_BYTES_MAX) {
         entry.add("body", Base64.getEncoder().encodeToString(body));
      }
      return entry;
   }

   private static byte[] body(ClientMessage message) throws Exception {
      if (message.isLargeMessage()) {
         ByteArrayOutputStream whole = new ByteArrayOutputStream();
         message.saveToOutputStream(whole);
         return whole.toByteArray();
      }
      ActiveMQBuffer buffer = message.getReadOnlyBodyBuffer();
      byte[] body = new byte[buffer.readableBytes()];
      buffer.readBytes(body);
      return body;
   }

   private static JsonObjectBuilder properties(ClientMessage message) {
      TreeMap<String, SimpleString> names = new TreeMap<>();
      for (SimpleString name : message.getPropertyNames()) {
         names.put(visible(name.toString()), name);
      }
      JsonObjectBuilder found = JsonLoader.createObjectBuilder();
      names.forEach((shown, name) -> {
         Object value = message.getObjectProperty(name);
         String type = value == null ? "null" : value instanceof SimpleString ? "string" : value instanceof byte[] ? "bytes"
            : value.getClass().getSimpleName().toLowerCase().replace("integer", "int").replace("character", "char");
         found.add(shown, JsonLoader.createObjectBuilder().add("t", type).add("v", text(value)));
      });
      return found;
   }

   private static String text(Object value) {
      if (value instanceof byte[] bytes) {
         return Base64.getEncoder().encodeToString(bytes);
      } else if (value instanceof Float number) {
         return Integer.toHexString(Float.floatToRawIntBits(number));
      } else if (value instanceof Double number) {
         return Long.toHexString(Double.doubleToRawLongBits(number));
      }
      return visible(String.valueOf(value));
   }

   private static String visible(String text) {
      StringBuilder shown = new StringBuilder();
      text.codePoints().forEach(point -> {
         if (point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE) {
            shown.append(String.format("\\u%04x", point));
         } else {
            shown.appendCodePoint(point);
         }
      });
      return shown.toString();
   }
}

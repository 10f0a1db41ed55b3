import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

import org.apache.activemq.artemis.api.core.ActiveMQBuffer;
import org.apache.activemq.artemis.api.core.ActiveMQBuffers;
import org.apache.activemq.artemis.api.core.JsonUtil;
import org.apache.activemq.artemis.api.core.Message;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.filter.Filter;
import org.apache.activemq.artemis.core.filter.impl.FilterImpl;
import org.apache.activemq.artemis.json.JsonArray;
import org.apache.activemq.artemis.json.JsonObject;
import org.apache.activemq.artemis.json.JsonString;
import org.apache.activemq.artemis.json.JsonValue;
import org.apache.activemq.artemis.selector.filter.BooleanExpression;
import org.apache.activemq.artemis.selector.filter.Filterable;
import org.apache.activemq.artemis.selector.impl.SelectorParser;
import org.apache.activemq.artemis.spi.core.protocol.MessagePersister;
import org.apache.activemq.artemis.utils.SelectorTranslator;

/**
 * Asks the broker's own selector code. One JSON object a line on standard input, one short line out each.
 *
 * <p>{@code {"selector", "properties": {name: [type, text]}}} answers {@code invalid}, or two words: what evaluating
 * gives ({@code true}, {@code false}, {@code unknown}, {@code fails}), and whether a message is accepted.
 * {@code {"messages": [base64]}} keeps messages as journal records hold them; then {@code {"filter", "jms"}} answers
 * {@code invalid} or a digit for each of them, 1 if it is accepted. With {@code jms} the names are translated first,
 * as a JMS client does.
 */
public final class SelectorOracle {
   private static final List<Message> MESSAGES = new ArrayList<>();

   public static void main(String[] args) throws Exception {
      PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
      System.setOut(System.err);
      BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = questions.readLine(); line != null; line = questions.readLine()) {
         JsonObject question = JsonUtil.readJsonObject(line);
         if (question.containsKey("selector")) {
            answers.println(evaluate(question.getString("selector"), question.getJsonObject("properties")));
         } else if (question.containsKey("messages")) {
            answers.println(keep(question.getJsonArray("messages")));
         } else {
            answers.println(filter(question.getString("filter"), question.getBoolean("jms")));
         }
      }
   }

   private static String evaluate(String selector, JsonObject properties) {
      BooleanExpression expression;
      try {
         expression = SelectorParser.parse(selector);
      } catch (Exception e) {
         return "invalid";
      }
      Filterable message = new Properties(properties);
      return word(expression, message) + " " + accepts(expression, message);
   }

   private static String word(BooleanExpression expression, Filterable message) {
      try {
         Object value = expression.evaluate(message);
         return value == null ? "unknown" : value.toString();
      } catch (Exception e) {
         return "fails";
      }
   }

   /** The broker takes a failing evaluation for a message that does not match. */
   private static boolean accepts(BooleanExpression expression, Filterable message) {
      try {
         return expression.matches(message);
      } catch (Exception e) {
         return false;
      }
   }

   private static String keep(JsonArray messages) {
      MESSAGES.clear();
      for (JsonValue encoded : messages) {
         byte[] payload = Base64.getDecoder().decode(((JsonString) encoded).getString());
         ActiveMQBuffer buffer = ActiveMQBuffers.wrappedBuffer(payload);
         MESSAGES.add(MessagePersister.getInstance().decode(buffer, null, null));
      }
      return "kept " + MESSAGES.size();
   }

   private static String filter(String text, boolean jms) {
      Filter filter;
      try {
         filter = FilterImpl.createFilter(jms ? SelectorTranslator.convertToActiveMQFilterString(text) : text);
      } catch (Exception e) {
         return "invalid";
      }
      StringBuilder answer = new StringBuilder();
      for (Message message : MESSAGES) {
         answer.append(filter.match(message) ? '1' : '0');
      }
      return answer.toString();
   }

   /** A message of nothing but properties. */
   private static final class Properties implements Filterable {
      private final Map<String, Object> values = new HashMap<>();

      Properties(JsonObject properties) {
         for (Map.Entry<String, JsonValue> entry : properties.entrySet()) {
            JsonArray typed = (JsonArray) entry.getValue();
            values.put(entry.getKey(), value(typed.getString(0), typed.getString(1)));
         }
      }

      private static Object value(String type, String text) {
         return switch (type) {
            case "string" -> text;
            case "boolean" -> Boolean.valueOf(text);
            case "byte" -> Byte.valueOf(text);
            case "short" -> Short.valueOf(text);
            case "int" -> Integer.valueOf(text);
            case "long" -> Long.valueOf(text);
            case "float" -> Float.valueOf(text);
            case "double" -> Double.valueOf(text);
            case "char" -> Character.valueOf(text.charAt(0));
            case "bytes" -> Base64.getDecoder().decode(text);
            case "timestamp" -> new Date(Long.parseLong(text));
            case "uuid" -> UUID.fromString(text);
            default -> throw new IllegalArgumentException(type);
         };
      }

      @Override
      public Object getProperty(SimpleString name) {
         return values.get(name.toString());
      }

      @Override
      public <T> T getBodyAs(Class<T> type) {
         return null;
      }

      @Override
      public Object getLocalConnectionId() {
         return null;
      }
   }
}

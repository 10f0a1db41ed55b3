package journalfs.tests;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

import org.apache.activemq.artemis.api.core.JsonUtil;
import org.apache.activemq.artemis.json.JsonObject;
import org.apache.activemq.artemis.json.JsonObjectBuilder;
import org.apache.activemq.artemis.utils.JsonLoader;

/**
 * A client of a broker that does what it is told on standard input: one JSON object a line, {@code do} names the
 * command, one JSON object a line is the answer. It ends when its input ends.
 *
 * <p>An answer has {@code ok}; if that is false, {@code error} says why. Everything else depends on the command.
 */
public final class BrokerClient {
   private BrokerClient() {
   }

   public static void main(String[] args) throws Exception {
      // The library may print to standard output; answers must not be mixed up with that.
      PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
      System.setOut(System.err);
      BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      try (Sessions sessions = new Sessions(args[0])) {
         CoreCommands core = new CoreCommands(sessions);
         XaCommands xa = new XaCommands(sessions);
         MessageCommands messages = new MessageCommands(sessions);
         for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(answer(JsonUtil.readJsonObject(line), core, xa, messages));
         }
      }
   }

   private static JsonObject answer(JsonObject command, CoreCommands core, XaCommands xa,
                                    MessageCommands messages) {
      JsonObjectBuilder answer = JsonLoader.createObjectBuilder();
      try {
         String verb = command.getString("do");
         if (verb.startsWith("xa-")) {
            xa.run(verb, command, answer);
         } else if (verb.startsWith("messages-")) {
            messages.run(verb, command, answer);
         } else {
            core.run(verb, command, answer);
         }
         return answer.add("ok", true).build();
      } catch (Exception failure) {
         return JsonLoader.createObjectBuilder().add("ok", false).add("error", failure.toString()).build();
      }
   }
}

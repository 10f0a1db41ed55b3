package journalfs.tests;

import java.nio.charset.StandardCharsets;
import java.util.Base64;

import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

import org.apache.activemq.artemis.api.core.client.ClientSession;
import org.apache.activemq.artemis.core.transaction.impl.XidImpl;
import org.apache.activemq.artemis.json.JsonArrayBuilder;
import org.apache.activemq.artemis.json.JsonObject;
import org.apache.activemq.artemis.json.JsonObjectBuilder;
import org.apache.activemq.artemis.utils.JsonLoader;

/** Distributed transactions: begin one with {@code xa-begin}, send and consume in its session, then prepare it. */
final class XaCommands {
   private final Sessions sessions;

   XaCommands(Sessions sessions) {
      this.sessions = sessions;
   }

   void run(String verb, JsonObject command, JsonObjectBuilder answer) throws Exception {
      if (verb.equals("xa-recover")) {
         recover(command, answer);
         return;
      }
      String name = command.getString("session");
      Xid xid = xid(command);
      switch (verb) {
         case "xa-begin" -> sessions.begin(name, true).start(xid, XAResource.TMNOFLAGS);
         case "xa-prepare" -> {
            ClientSession session = sessions.named(name);
            session.end(xid, XAResource.TMSUCCESS);
            session.prepare(xid);
         }
         case "xa-commit" -> sessions.named(name).commit(xid, false);
         case "xa-rollback" -> sessions.named(name).rollback(xid);
         default -> throw new IllegalArgumentException("no command " + verb);
      }
   }

   private void recover(JsonObject command, JsonObjectBuilder answer) throws Exception {
      JsonArrayBuilder found = JsonLoader.createArrayBuilder();
      JsonArrayBuilder whole = JsonLoader.createArrayBuilder();
      Base64.Encoder encoder = Base64.getUrlEncoder().withoutPadding();
      ClientSession session = sessions.begin(command.getString("session"), true);
      for (Xid xid : session.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
         found.add(Base64.getEncoder().encodeToString(xid.getGlobalTransactionId()));
         whole.add(xid.getFormatId() + "." + encoder.encodeToString(xid.getGlobalTransactionId())
            + "." + encoder.encodeToString(xid.getBranchQualifier()));
      }
      answer.add("prepared", found).add("whole", whole);
   }

   private static Xid xid(JsonObject command) {
      byte[] global = command.getString("xid").getBytes(StandardCharsets.UTF_8);
      return new XidImpl(command.getString("branch", "branch").getBytes(StandardCharsets.UTF_8),
         command.getInt("format_id", 7), global);
   }
}

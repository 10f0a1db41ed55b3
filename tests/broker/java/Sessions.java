package journalfs.tests;

import java.util.HashMap;
import java.util.Map;

import org.apache.activemq.artemis.api.core.client.ActiveMQClient;
import org.apache.activemq.artemis.api.core.client.ClientSession;
import org.apache.activemq.artemis.api.core.client.ClientSessionFactory;
import org.apache.activemq.artemis.api.core.client.ServerLocator;

/** The core sessions of one client, by name. The session named "" commits each send and acknowledgement at once. */
final class Sessions implements AutoCloseable {
   /** Bodies of more encoded bytes than this go as large messages (the client's own default). */
   static final int LARGE_BYTES_MIN = 100 * 1024;

   private final ServerLocator locator;
   private final ClientSessionFactory factory;
   private final ServerLocator aheadLocator;
   private final Map<String, ClientSession> open = new HashMap<>();
   private ClientSession ahead;

   Sessions(String url) throws Exception {
      locator = ActiveMQClient.createServerLocator(url);
      locator.setBlockOnDurableSend(true).setBlockOnNonDurableSend(true).setBlockOnAcknowledge(true);
      // Nothing is fetched ahead, so a message that was not asked for is never counted as delivered.
      locator.setAckBatchSize(0).setConsumerWindowSize(0).setMinLargeMessageSize(LARGE_BYTES_MIN);
      factory = locator.createSessionFactory();
      aheadLocator = ActiveMQClient.createServerLocator(url);
   }

   /** For browsing only: messages come as fast as they can. */
   ClientSession fetchingAhead() throws Exception {
      if (ahead == null) {
         ahead = aheadLocator.createSessionFactory().createSession(true, true, 0);
         ahead.start();
      }
      return ahead;
   }

   ClientSession automatic() throws Exception {
      ClientSession session = open.get("");
      if (session == null) {
         session = factory.createSession(true, true, 0);
         session.start();
         open.put("", session);
      }
      return session;
   }

   ClientSession named(String name) throws Exception {
      if (name.isEmpty()) {
         return automatic();
      }
      ClientSession session = open.get(name);
      if (session == null) {
         throw new IllegalStateException("no session " + name);
      }
      return session;
   }

   ClientSession begin(String name, boolean xa) throws Exception {
      ClientSession session = factory.createSession(xa, false, false);
      session.start();
      if (open.putIfAbsent(name, session) != null) {
         session.close();
         throw new IllegalStateException("session " + name + " is open already");
      }
      return session;
   }

   void end(String name) throws Exception {
      named(name).close();
      open.remove(name);
   }

   @Override
   public void close() throws Exception {
      for (ClientSession session : open.values()) {
         session.close();
      }
      factory.close();
      locator.close();
      aheadLocator.close();
   }
}

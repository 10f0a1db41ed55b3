import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.activemq.artemis.core.io.SequentialFileFactory;
import org.apache.activemq.artemis.core.io.aio.AIOSequentialFileFactory;
import org.apache.activemq.artemis.core.io.mapped.MappedSequentialFileFactory;
import org.apache.activemq.artemis.core.io.nio.NIOSequentialFileFactory;
import org.apache.activemq.artemis.core.journal.impl.JournalImpl;

/**
 * Appends records with the broker's own journal classes, set up as a broker with its defaults sets them up.
 * AppendJournal FOLDER TYPE WRITERS BYTES reads the number of records from each line of standard input, appends them
 * to a new journal in FOLDER with that many threads, each waiting for every record, and prints records a second, and
 * how long a record took in microseconds: the median and what 99 percent took at most.
 */
public final class AppendJournal {
   private static final int FILE_BYTES = 10 * 1024 * 1024;
   private static final int BUFFER_BYTES = 490 * 1024;
   private static final int NIO_TIMEOUT_NS = 1_000_000_000 / 300;
   private static final int AIO_TIMEOUT_NS = 1_000_000_000 / 2000;
   private static final int AIO_WRITES = 4096;
   private static final byte MESSAGE = 45;

   public static void main(String[] args) throws Exception {
      File folder = new File(args[0]);
      int writers = Integer.parseInt(args[2]);
      byte[] body = new byte[Integer.parseInt(args[3])];
      try (BufferedReader orders = new BufferedReader(new InputStreamReader(System.in))) {
         String line;
         while ((line = orders.readLine()) != null) {
            System.out.println(round(folder, args[1], writers, Integer.parseInt(line.strip()), body));
         }
      }
   }

   private static String round(File folder, String type, int writers, int count, byte[] body) throws Exception {
      Files.createDirectories(folder.toPath());
      SequentialFileFactory factory = factory(folder, type);
      int each = count / writers;
      long block = Math.max(factory.getAlignment(), 2L * body.length);
      int files = (int) (2 + each * writers * block / FILE_BYTES);
      JournalImpl journal = new JournalImpl(FILE_BYTES, files, files, 0, 0, factory, "activemq-data", "amq",
                                            factory.getMaxIO());
      journal.start();
      journal.load(new ArrayList<>(), new ArrayList<>(), (tx, kept, deleted) -> { });
      long[] taken = new long[each * writers];
      AtomicLong ids = new AtomicLong();
      CountDownLatch begin = new CountDownLatch(1);
      List<Thread> threads = new ArrayList<>();
      List<Exception> failures = new ArrayList<>();
      for (int writer = 0; writer < writers; writer++) {
         int first = writer * each;
         Thread thread = new Thread(() -> {
            try {
               begin.await();
               for (int i = first; i < first + each; i++) {
                  long from = System.nanoTime();
                  journal.appendAddRecord(ids.incrementAndGet(), MESSAGE, body, true);
                  taken[i] = System.nanoTime() - from;
               }
            } catch (Exception failure) {
               synchronized (failures) {
                  failures.add(failure);
               }
            }
         });
         thread.start();
         threads.add(thread);
      }
      long start = System.nanoTime();
      begin.countDown();
      for (Thread thread : threads) {
         thread.join();
      }
      double seconds = (System.nanoTime() - start) / 1e9;
      journal.stop();
      for (Path path : list(folder)) {
         Files.delete(path);
      }
      if (!failures.isEmpty()) {
         throw failures.get(0);
      }
      Arrays.sort(taken);
      return String.format(Locale.ROOT, "%.1f %.2f %.2f", taken.length / seconds, taken[taken.length / 2] / 1e3,
                           taken[taken.length - taken.length / 100 - 1] / 1e3);
   }

   private static List<Path> list(File folder) throws Exception {
      try (var paths = Files.list(folder.toPath())) {
         return paths.toList();
      }
   }

   private static SequentialFileFactory factory(File folder, String type) {
      return switch (type) {
         case "NIO" -> new NIOSequentialFileFactory(folder, true, BUFFER_BYTES, NIO_TIMEOUT_NS, 1, false, null, null);
         case "MAPPED" -> new MappedSequentialFileFactory(folder, FILE_BYTES, true, BUFFER_BYTES, NIO_TIMEOUT_NS,
                                                          null);
         case "ASYNCIO" -> new AIOSequentialFileFactory(folder, BUFFER_BYTES, AIO_TIMEOUT_NS, AIO_WRITES, false, null,
                                                        null);
         default -> throw new IllegalArgumentException(type);
      };
   }
}

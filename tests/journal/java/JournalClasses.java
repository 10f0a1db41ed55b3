import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

import org.apache.activemq.artemis.core.io.SequentialFileFactory;
import org.apache.activemq.artemis.core.io.aio.AIOSequentialFileFactory;
import org.apache.activemq.artemis.core.io.mapped.MappedSequentialFileFactory;
import org.apache.activemq.artemis.core.io.nio.NIOSequentialFileFactory;
import org.apache.activemq.artemis.core.journal.PreparedTransactionInfo;
import org.apache.activemq.artemis.core.journal.RecordInfo;
import org.apache.activemq.artemis.core.journal.impl.JournalImpl;

/**
 * Loads a journal with the broker's own classes, says what is in it, then carries out commands from standard input:
 * add ID TYPE HEX, update ID TYPE HEX, delete ID, commit TX, rollback TX, compact, touch PATH.
 * A further argument is a folder for the history of closed files.
 */
public final class JournalClasses {
   private static final HexFormat HEX = HexFormat.of();

   public static void main(String[] args) throws Exception {
      SequentialFileFactory factory = factory(new File(args[0]), args[1]);
      int fileSize = Integer.parseInt(args[2]);
      JournalImpl journal = new JournalImpl(fileSize, 2, -1, 0, 0, factory, args[3], args[4], factory.getMaxIO());
      if (args.length > 5) {
         journal.setHistoryFolder(new File(args[5]), -1, -1);
      }
      journal.start();
      List<RecordInfo> records = new ArrayList<>();
      List<PreparedTransactionInfo> prepared = new ArrayList<>();
      journal.load(records, prepared, (tx, kept, deleted) -> System.out.println("failed " + tx), true);
      for (RecordInfo record : records) {
         System.out.println("record " + text(record));
      }
      for (PreparedTransactionInfo one : prepared) {
         System.out.println("prepared " + one.getId() + " " + HEX.formatHex(one.getExtraData()));
         for (RecordInfo record : one.getRecords()) {
            System.out.println("in " + one.getId() + " " + text(record));
         }
         for (RecordInfo record : one.getRecordsToDelete()) {
            System.out.println("deletes " + one.getId() + " " + record.id);
         }
      }
      try (BufferedReader commands = new BufferedReader(new InputStreamReader(System.in))) {
         String line;
         while ((line = commands.readLine()) != null) {
            carryOut(journal, line.split(" "));
         }
      }
      journal.stop();
      System.out.println("done");
   }

   private static SequentialFileFactory factory(File directory, String type) {
      return switch (type) {
         case "NIO" -> new NIOSequentialFileFactory(directory, 1);
         case "MAPPED" -> new MappedSequentialFileFactory(directory, 10485760, false, 0, 0, null);
         case "ASYNCIO" -> new AIOSequentialFileFactory(directory, 500);
         default -> throw new IllegalArgumentException(type);
      };
   }

   private static String text(RecordInfo record) {
      return record.id + " " + record.userRecordType + " " + record.isUpdate + " [" + HEX.formatHex(record.data) + "]";
   }

   private static void carryOut(JournalImpl journal, String[] words) throws Exception {
      if (words[0].equals("touch")) {
         Files.createFile(Path.of(words[1]));
         return;
      }
      long id = words.length > 1 ? Long.parseLong(words[1]) : 0;
      switch (words[0]) {
         case "add" -> journal.appendAddRecord(id, Byte.parseByte(words[2]), HEX.parseHex(words[3]), true);
         case "update" -> journal.appendUpdateRecord(id, Byte.parseByte(words[2]), HEX.parseHex(words[3]), true);
         case "delete" -> journal.appendDeleteRecord(id, true);
         case "commit" -> journal.appendCommitRecord(id, true);
         case "rollback" -> journal.appendRollbackRecord(id, true);
         case "compact" -> journal.testCompact();
         default -> throw new IllegalArgumentException(words[0]);
      }
   }
}

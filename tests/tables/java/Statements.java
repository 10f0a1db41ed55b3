import org.apache.activemq.artemis.jdbc.store.sql.PropertySQLProvider.Factory;
import org.apache.activemq.artemis.jdbc.store.sql.PropertySQLProvider.Factory.SQLDialect;
import org.apache.activemq.artemis.jdbc.store.sql.SQLProvider;

/** Prints the statements that make a broker's tables in each dialect: DIALECT, what is made, statement. */
public final class Statements {

   public static void main(String[] arguments) {
      for (SQLDialect dialect : SQLDialect.values()) {
         for (SQLProvider.DatabaseStoreType type : SQLProvider.DatabaseStoreType.values()) {
            SQLProvider provider = new Factory(dialect).create("T", type);
            String[] statements = switch (type) {
               case MESSAGE_JOURNAL -> provider.getCreateJournalTableSQL();
               case LARGE_MESSAGE -> provider.getCreateFileTableSQL();
               case NODE_MANAGER -> new String[] {provider.createNodeManagerStoreTableSQL()};
               default -> new String[0];
            };
            for (String statement : statements) {
               System.out.println(dialect + "\t" + type + "\t" + statement.replaceAll("\\s+", " "));
            }
         }
      }
   }
}

import java.io.FileInputStream;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.deployers.impl.FileConfigurationParser;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;

/** Prints what the broker's own parser makes of configurations: beans of the core, and settings of addresses. */
public final class ParseBroker {
   private ParseBroker() {
   }

   public static void main(String[] arguments) throws Exception {
      String[] beans = arguments[0].split(",");
      for (int at = 1; at < arguments.length; at++) {
         System.out.println("file " + arguments[at]);
         try (InputStream in = new FileInputStream(arguments[at])) {
            FileConfigurationParser parser = new FileConfigurationParser();
            parser.setValidateAIO(false);
            Configuration found = parser.parseMainConfig(in);
            for (String bean : beans) {
               System.out.println("core " + bean + " " + value(found, bean));
            }
            for (Map.Entry<String, AddressSettings> one : found.getAddressSettings().entrySet()) {
               System.out.println("address " + one.getKey() + " " + one.getValue().toJSON());
            }
         } catch (IllegalArgumentException | IllegalStateException | org.xml.sax.SAXException error) {
            System.out.println("refused " + error.toString().replace('\n', ' '));
         }
      }
   }

   private static Object value(Configuration found, String bean) throws Exception {
      for (String prefix : new String[] {"get", "is"}) {
         for (Method method : found.getClass().getMethods()) {
            if (method.getParameterCount() == 0 && method.getName().equalsIgnoreCase(prefix + bean)) {
               return method.invoke(found);
            }
         }
      }
      return "absent";
   }
}

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;

/** Prints what each method without parameters of the classes named returns that begins with get or is. */
public class Defaults {
    public static void main(String[] classes) throws Exception {
        for (String name : classes) {
            Class<?> type = Class.forName(name);
            Object made = null;
            try {
                made = type.getDeclaredConstructor().newInstance();
            } catch (ReflectiveOperationException none) {
                made = null;
            }
            for (Method method : type.getMethods()) {
                String called = method.getName();
                boolean reads = called.startsWith("get") || called.startsWith("is");
                boolean callable = Modifier.isStatic(method.getModifiers()) || made != null;
                if (!reads || !callable || method.getParameterCount() > 0) {
                    continue;
                }
                try {
                    System.out.println(type.getSimpleName() + "." + called + "=" + method.invoke(made));
                } catch (ReflectiveOperationException refused) {
                    continue;
                }
            }
        }
    }
}

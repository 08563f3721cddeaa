"""What the studies beside other programs do to the machine, and ask of it."""
import os


def cold():
    """Nothing is in the page cache."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def pressure():
    """Percent of the last 10 s in which something waited for a processor."""
    with open("/proc/pressure/cpu") as file:
        return float(file.readline().split("avg10=")[1].split()[0])

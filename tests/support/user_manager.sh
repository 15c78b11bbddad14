# A user manager of systemd's own in namespaces of its own, and in it the script that is given. Run by test_user_manager.py:
#   unshare --mount --pid --fork --mount-proc bash user_manager.sh GROUP HOME SCRIPT
# GROUP is a new control group to live in: systemd wants one it may divide.
set -eu
group=$1 home=$2 script=$3
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
mkdir -m 700 -p /run/user/0 "$home"
# Of a mixed hierarchy both halves count; where only the new one is mounted it has no folder of its own.
for tree in systemd unified .; do
  [ -f "/sys/fs/cgroup/$tree/cgroup.procs" ] || continue
  mkdir "/sys/fs/cgroup/$tree/$group"
  echo $$ >"/sys/fs/cgroup/$tree/$group/cgroup.procs"
done
export HOME="$home" XDG_RUNTIME_DIR=/run/user/0 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/0/bus
/lib/systemd/systemd --user --log-target=null &
until systemctl --user is-system-running --quiet 2>/dev/null; do sleep 0.05; done
cd "$home"
exec bash -eu "$script"

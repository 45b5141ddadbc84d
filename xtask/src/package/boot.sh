#!/bin/sh
# boot.sh ROOT GROUP: systemd as process 1 of namespaces of its own, over the folder ROOT, in cgroups of its own.
set -eu
root=$1 group=$2
for hierarchy in /sys/fs/cgroup/*; do
	[ -e "$hierarchy/cgroup.procs" ] || continue
	mkdir -p "$hierarchy/$group"
	for file in cpuset.cpus cpuset.mems; do
		if [ -e "$hierarchy/$file" ]; then cat "$hierarchy/$file" >"$hierarchy/$group/$file"; fi
	done
	echo $$ >"$hierarchy/$group/cgroup.procs"
done
exec unshare --mount --pid --net --uts --ipc --cgroup --propagation private --fork --kill-child sh -eu -c '
	root=$1
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	# What is not of these namespaces belongs to the machine.
	mount --bind "$root/proc/sys" "$root/proc/sys"
	mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
	mount -o remount,bind,ro "$root/proc/sys"
	mount -t sysfs sysfs "$root/sys"
	mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
	for hierarchy in /sys/fs/cgroup/*; do
		[ -e "$hierarchy/cgroup.procs" ] || continue
		name=${hierarchy##*/}
		mkdir "$root/sys/fs/cgroup/$name"
		case $name in
		unified) mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/$name" ;;
		systemd) mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/$name" ;;
		*) mount -t cgroup -o "$name" cgroup "$root/sys/fs/cgroup/$name" ;;
		esac
	done
	mount -t tmpfs -o mode=755 tmpfs "$root/run"
	mount -t tmpfs -o mode=755 tmpfs "$root/dev"
	mkdir "$root/dev/pts" "$root/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
	ln -s pts/ptmx "$root/dev/ptmx"
	for device in null zero full random urandom tty; do
		: >"$root/dev/$device"
		mount --bind "/dev/$device" "$root/dev/$device"
	done
	ip link set lo up
	ip link add eth0 type veth peer name eth1
	ip address add 192.0.2.10/24 dev eth0
	ip link set eth0 up
	ip link set eth1 up
	ip route add default dev eth0
	# Containers are made by pivot_root too, which from a chroot would lead to the root of the machine.
	cd "$root"
	pivot_root . mnt
	exec chroot . sh -c "umount -l /mnt; exec env -i container=oarlock PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd"
' sh "$root"

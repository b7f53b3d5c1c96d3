module trimtab.dev/rig/images/worker

go 1.22

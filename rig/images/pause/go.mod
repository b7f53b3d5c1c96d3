module trimtab.dev/rig/images/pause

go 1.22

"""● `moldau up`: a broker or a whole cluster right here.  Start at `command`."""

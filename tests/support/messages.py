"""Words of messages that several tests look for: who rewords a message changes them here."""

# Who signed, and who may

NOT_SIGNED_BY = "signature is not by"
HAS_NOT_SIGNED_TASK = "has not signed the task"
HAS_NOT_SIGNED_CHECKPOINT = "has not signed the checkpoint with the key given"
NOT_OF_GIVEN_KEY = "whose key was given"
NOT_TRUSTED_HERE = "than the one that is trusted here"
NEEDS_ROLE = "needs a certificate of role"
OTHER_ROLE = "and the one shown is that of"
NO_READABLE_CERTIFICATE = "has no readable certificate"
NOT_ISSUED_BY_AUTHORITY = "was not issued by the authority in"

# What is read

NOT_A_FEED_ENTRY = "not a feed entry"
FORMAT_THAT_IS_READ = "this version of hubbub reads"
LAYOUT_THAT_IS_KNOWN = "but this hubbub knows"
UNKNOWN_TO_THIS_VERSION = "unknown to this version"
UNKNOWN_KEY = "is not a key hubbub knows"
OTHER_KIND_OF_FILE = "is not a file of this kind"
NOT_WHAT_WAS_STORED = "not what was stored"
RESULTS_DO_NOT_AGREE = "do not agree with their certificate"
NO_ROUND_ANYWHERE = "neither service shows a round of task"
DELIVERED_NOTHING = "the shuffler has delivered nothing"

# Transparency logs

DEMANDS_LOG = "demands that it is in log"
NOT_SHOWN_TO_BE_IN_LOG = "not shown to be in log"
TOO_FEW_WITNESSES = "of the known witnesses have signed"

# What is proven, and what is spent

NOTHING_IS_KNOWN = "of which nothing is known"
NO_DUMMY = "does not define a dummy"
OTHER_DUMMIES = "dummies, but task flights has"
NO_NOISE = "takes no noise of the shuffler"
AN_ATTACK = "an attack and not an upper bound"
NOT_EVEN_THE_FIRST = "not even the first"
SPENT_SO_FAR = "spent so far"
ABOVE_CAP = "above its cap of"

# Devices

ANSWERS_KEPT = "are kept on this device"
ANSWERS_OF_ROUND = "; the answers to round"
GEVENT = "gevent has replaced threading"

# Services

FOLDER_IN_USE = "in use by another process"
PORT_IN_USE = "another process uses it"
DIFFERENT_WAYS = "the tasks take different ways"
NO_TASK_TO_RUN = "no task to run"

"""One file per model: build(store, inputs, config) gives its heads."""

from models import (dbmtl, dcn, deepfm, dlrm, mask_net, matching, mind, mmoe, multi_tower, pepnet, ple, rocket_launching,
                    wide_and_deep, wukong, xdeepfm)

BUILDERS = {
    "dlrm": dlrm.build, "deepfm": deepfm.build, "wide_and_deep": wide_and_deep.build, "dcn_v1": dcn.build_v1,
    "dcn_v2": dcn.build_v2, "multi_tower": multi_tower.build, "multi_tower_din": multi_tower.build,
    "mask_net": mask_net.build, "wukong": wukong.build, "xdeepfm": xdeepfm.build,
    "rocket_launching": rocket_launching.build, "mmoe": mmoe.build, "ple": ple.build, "dbmtl": dbmtl.build,
    "pepnet": pepnet.build, "dssm": matching.build_dssm, "dssm_v2": matching.build_dssm, "dat": matching.build_dat,
    "mind": mind.build,
}
